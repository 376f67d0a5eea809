"""The call: its arguments, and what they become."""
