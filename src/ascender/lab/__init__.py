"""The lab: suites of training runs, resumable and crash-safe, judged by criteria fixed before."""

from __future__ import annotations

from ascender.lab.bundle import Bundle, Claim
from ascender.lab.costs import Costs
from ascender.lab.insight import InsightResult, compare_models
from ascender.lab.runner import RunResult, SuiteTable, report, run, show, write_paper
from ascender.lab.store import Store
from ascender.lab.suite import Suite, grid, suite

__all__ = [
    "Bundle", "Claim", "Costs", "InsightResult", "RunResult", "Store", "Suite", "SuiteTable",
    "compare_models", "grid", "report", "run", "show", "suite", "write_paper",
]  # fmt: skip
