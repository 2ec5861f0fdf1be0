"""Limits of normalisation, after arXiv 2508.17821: what a row of weights that sums to 1 can do.

from ascender.insight import limits
result = limits.run("folder/of/a/model", lengths=(64, 256))
"""

from ascender.insight.limits.inputs import default_text, task_inputs, text_inputs
from ascender.insight.limits.measure import Measured, measure
from ascender.insight.limits.monitor import LimitsCallback, Thresholds, alarms, head_metrics
from ascender.insight.limits.runner import LimitsResult, run
from ascender.insight.limits.sphere import Sphere, sphere

__all__ = [
    "LimitsCallback", "LimitsResult", "Measured", "Sphere", "Thresholds", "alarms",
    "default_text", "head_metrics", "measure", "run", "sphere", "task_inputs", "text_inputs",
]  # fmt: skip
