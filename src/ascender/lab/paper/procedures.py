"""Appendix D: what was done step by step, each step with its place in the code."""

from __future__ import annotations

from ascender.lab.paper.document import Block, Bullets, Heading, Paragraph, text
from ascender.lab.paper.procedure_strings import PROCEDURES

PARTS = ("layer", "training", "judging", "measuring", "again")


def procedures() -> list[Block]:
    """The appendix: a numbered list a part."""
    blocks: list[Block] = [
        Heading(1, text(PROCEDURES["heading"]), "app:procedures"),
        Paragraph(text(PROCEDURES["intro"])),
    ]
    for part in PARTS:
        steps = tuple(text(step) for step in PROCEDURES.section(part).values())
        blocks += [Heading(2, text(PROCEDURES[part])), Bullets(steps, numbered=True)]
    return blocks
