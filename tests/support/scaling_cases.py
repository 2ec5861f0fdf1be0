"""A small model and its flock, for the formulas of docs/scaling.md."""

from ascender.measure.scaling import FlockShape, ModelShape

B, N = 2, 43
SMALL = ModelShape("small", 1, 24, 6, 3, 8, 7, 11, True)
FLOCK = FlockShape(
    far=5, window=3, n_global=0, d_a=4, rules=True, term=True, d_z=5, rotary=True, spaces=1
)
