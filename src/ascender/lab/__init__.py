"""The lab: suites of runs, done once and never lost, judged by rules fixed before them."""

from __future__ import annotations

from ascender.lab.store import Store
from ascender.lab.suite import Suite, grid, suite

__all__ = ["Store", "Suite", "grid", "suite"]
