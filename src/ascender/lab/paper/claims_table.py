"""The table of the claims with their verdicts, numbered as the author's file names them."""

from __future__ import annotations

from ascender.lab.bundle import Claim
from ascender.lab.paper.draft_tables import ALL
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import count, counted, named
from ascender.lab.paper.summary import Found
from ascender.lab.reports.cells import lab_table, verdict_cell
from ascender.lab.reports.claims import Finding
from ascender.report.table import Cell, Table


def claims_table(of: Material, found: Found) -> Table:
    """A row a claim, numbered as the author's file names them."""
    rows = []
    for n, (claim, finding) in enumerate(found, 1):
        results = of.suites.get(claim.suite)
        trials = tuple(r["key"] for r in results.records) if results else ()
        rows.append({
            "number": counted(of, n),
            "paper_claim": named(claim.text, claim.text_ko),
            "suite": named(claim.suite),
            "trials": count(len(trials), trials) if trials else counted(of, 0),
            "verdict": verdict_cell(finding.verdict),
            "ground": ground(of, claim, finding),
        })  # fmt: skip
    words = ("paper_claim", "suite", "verdict", "ground")
    return lab_table("paper_claims", rows, strings=ALL, words=words)


def ground(of: Material, claim: Claim, finding: Finding) -> Cell:
    """Why a verdict is what it is, with the trials of its suite."""
    results = of.suites.get(claim.suite)
    trials = () if results is None else tuple(r["key"] for r in results.records)
    return Cell(finding.why, trials, ko=finding.why_ko)
