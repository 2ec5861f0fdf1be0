"""The lab: suites of runs, done once and never lost, judged by rules fixed before them."""

from __future__ import annotations

from ascender.lab.bundle import Bundle, Claim
from ascender.lab.costs import Costs
from ascender.lab.store import Store
from ascender.lab.suite import Suite, grid, suite

__all__ = ["Bundle", "Claim", "Costs", "Store", "Suite", "grid", "suite"]
