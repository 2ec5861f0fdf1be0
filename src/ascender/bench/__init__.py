"""Benchmarks of the attention, its rivals, a layer, a model, the backends and the import."""

from ascender.bench.runner import BENCHMARKS, BenchResult, run

__all__ = ["BENCHMARKS", "BenchResult", "run"]
