"""Real data whose neighbourhoods are known: what are lists of neighbours worth, and how?

    ascender lab run structure --out lab/structure --data-dir data

Citeseer as one graph: 3,327 papers, the field of each, 120 labelled. Which papers cite each other
is used in four ways: flock scope (a paper attends to itself and its list), neighbours of the rules
in visible scope, Graphormer's bias by distance, not at all. In flock scope with the rules and the
affinity term, with one of them and with neither, which is plain attention over the lists.

Learning rates: the best of tune_structure for each attention (the same grid, validation, seed 0).
Ten new seeds where a query attends to its list, five where it attends to everything.
"""

from ascender.lab import Suite, grid
from ascender.lab.suite import seeded
from ascender.lab.verdict import DecisionRule

CITESEER = {"steps": 100, "every": 10, "visible_share": 0.0}
LISTS = {
    "flock": 1e-2, "flock-no-rules": 1e-2, "flock+affinity_term=False": 1e-2,
    "flock-no-rules+affinity_term=False": 3e-2,
}  # fmt: skip
EVERYTHING = {"vanilla": 3e-3, "matched": 3e-3, "graph": 3e-3, "ascender": 3e-3}


def cells(rates):
    """A run of each attention at its learning rate."""
    return [
        run
        for name, rate in rates.items()
        for run in grid({"citeseer": {**CITESEER, "rate": rate}}, [name], seeds=1)
    ]


SUITE = Suite(
    name="structure",
    claim="Where lists of neighbours are given, flock scope with rules and affinity term is better "
    "than everything else that has them.",
    claim_ko="이웃 목록이 주어지면, 규칙과 친화도 항을 갖춘 무리 범위가 같은 목록을 가진 다른 모든 "
    "방법보다 낫다.",
    runs=(
        *seeded([*cells(LISTS), *cells(EVERYTHING)], range(100, 105)),
        *seeded(cells(LISTS), range(105, 110)),
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
)
