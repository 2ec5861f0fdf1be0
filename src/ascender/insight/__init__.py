"""See the flock: attention taken apart, on pages and in numbers.

from ascender.insight import capture, load
loaded = load("folder/of/a/model")
output, layers = capture(loaded.model, input_ids=ids)
"""

from ascender.insight.capture import Geometry, Layer, capture, has_rules, muted, watching
from ascender.insight.loading import Loaded, load

__all__ = ["Geometry", "Layer", "Loaded", "capture", "has_rules", "load", "muted", "watching"]
