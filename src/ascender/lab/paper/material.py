"""What a paper is made of: the suites of a folder judged, their claims, and what may be printed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ascender.lab.bundle import Claim, claimed
from ascender.lab.paper.facts import Facts
from ascender.lab.reports.bundle_report import read_suites
from ascender.lab.reports.claims import claims
from ascender.lab.reports.suite_results import DRAWS, SuiteResults
from ascender.report.table import Table


@dataclass(frozen=True)
class Material:
    """suites   by name, judged       stated   the claims as they were fixed before the runs
    judged   their table of verdicts (lab.reports.claims), a row a claim; None without claims
    facts    the numbers and names that the paper may have
    """

    folder: Path
    bundle: str
    suites: Mapping[str, SuiteResults]
    stated: tuple[Claim, ...]
    judged: Table | None
    facts: Facts


def material(
    folder: Path, draws: int = DRAWS, say: Callable[[str], None] = warnings.warn
) -> Material:
    """Of the folder of a suite or a bundle, of the store `results`, or of an earlier report."""
    bundle, stated = claimed(folder)
    suites = read_suites(folder, draws, say)
    judged = claims(stated, suites) if stated else None
    return Material(folder, bundle, suites, stated, judged, Facts.of(suites, stated))
