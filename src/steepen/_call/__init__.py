"""The entry point `minimize` and the processing of its arguments."""
