"""Limits of normalisation, after arXiv 2508.17821: what a row of weights that sums to 1 can do.

from ascender.insight import limits
result = limits.run("folder/of/a/model", lengths=(64, 256))
"""

from ascender.insight.limits.callback import LimitsCallback
from ascender.insight.limits.distance import Selection, selection
from ascender.insight.limits.inputs import default_text, task_inputs, text_inputs
from ascender.insight.limits.measure import Curve, Head, Measured, Slope, measure
from ascender.insight.limits.monitor import Thresholds, alarms, guideline, head_metrics
from ascender.insight.limits.runner import LimitsResult, run
from ascender.insight.limits.sensitivity import jacobian, largest_entry, reweighted, spectral
from ascender.insight.limits.support import (
    delta,
    effective_support,
    entropy,
    envelope,
    half_range,
    outside,
    tight,
)

__all__ = [
    "Curve",
    "Head",
    "LimitsCallback",
    "LimitsResult",
    "Measured",
    "Selection",
    "Slope",
    "Thresholds",
    "alarms",
    "default_text",
    "delta",
    "effective_support",
    "entropy",
    "envelope",
    "guideline",
    "half_range",
    "head_metrics",
    "jacobian",
    "largest_entry",
    "measure",
    "outside",
    "reweighted",
    "run",
    "selection",
    "spectral",
    "task_inputs",
    "text_inputs",
    "tight",
]  # fmt: skip
