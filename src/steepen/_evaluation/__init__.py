"""f, ∇f and H·v of the user's function, from every source, each call counted and limited."""
