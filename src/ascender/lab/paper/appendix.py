"""The appendices of the paper in their order: A settings, B sweeps, C examples and failures,
D procedures, E limitations, footprint and risks."""

from __future__ import annotations

from ascender.lab.paper.document import Block
from ascender.lab.paper.examples import examples
from ascender.lab.paper.footprint import footprint
from ascender.lab.paper.hyperparameters import hyperparameters
from ascender.lab.paper.material import Material
from ascender.lab.paper.procedures import procedures
from ascender.lab.paper.summary import Found
from ascender.lab.paper.sweeps import sweeps


def appendix(of: Material, found: Found) -> list[Block]:
    """All of them; `found`: the claims and what the trials say of each (summary.findings)."""
    return [
        *hyperparameters(of), *sweeps(of), *examples(of), *procedures(), *footprint(of, found),
    ]  # fmt: skip
