"""A suite that runs in seconds."""

TINY = """
from ascender.lab import Suite, grid
SUITE = Suite(
    name="tiny", claim="Nothing is claimed.", baseline="vanilla",
    runs=grid(
        {"distinct": {"options": {"crowd": 7, "most": 3, "dim": 5}, "hidden": 8, "heads": 2,
                      "layers": 1, "steps": STEPS, "batch": 4, "every": STEPS // 2}},
        variants=["vanilla", "ascender"], seeds=2, **MORE,
    ),
    goals={"distinct": 0.3},
)
"""


def nothing():
    """tick()"""
