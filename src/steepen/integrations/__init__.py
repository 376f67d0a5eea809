"""Steepen inside other libraries: users import the one module they need; nothing here holds a formula."""
