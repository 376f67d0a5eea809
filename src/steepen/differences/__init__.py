"""Where ∇f comes from: given, or made of values, with the error of each component (see `given.py`)."""
