"""Inspect a model's attention: every term of every score, contributions, roles, groups, limits.

from ascender.insight import capture, load
loaded = load("folder/of/a/model")
output, layers = capture(loaded.model, input_ids=ids)
"""

from ascender.insight.capture import Geometry, Layer, capture, has_rules, muted, watching
from ascender.insight.contribution import Contribution, contributions
from ascender.insight.gate_spread import common, gates
from ascender.insight.grouping import groups_found
from ascender.insight.loading import Loaded, load
from ascender.insight.model_summary import measure
from ascender.insight.page import Page, view
from ascender.insight.roles import agreement, layer_agreement, roles_of

__all__ = [
    "Contribution", "Geometry", "Layer", "Loaded", "Page", "agreement", "capture", "common",
    "contributions", "gates", "groups_found", "has_rules", "layer_agreement", "load", "measure",
    "muted", "roles_of", "view", "watching",
]  # fmt: skip
