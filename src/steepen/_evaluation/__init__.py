"""Calls of the user's f, ∇f, H·v and H, for drivers, directions and steps, each counted and limited."""
