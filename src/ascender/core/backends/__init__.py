"""Ways to compute the same attention."""
