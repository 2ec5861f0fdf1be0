"""Attention as a function: visibility, geometry, neighbours, the three rules, the softmax, and the
backends that compute it."""
