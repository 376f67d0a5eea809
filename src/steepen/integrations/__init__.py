"""Steepen inside other libraries, in their own terms; nothing here holds a formula."""
