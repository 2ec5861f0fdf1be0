"""ASCender: attention with alignment, separation and cohesion."""

from ascender.attention import asc_attention, asc_parts
from ascender.cache import Cache
from ascender.combine import LowRank, Parts
from ascender.losses import Losses, collect
from ascender.module import AscenderAttention
from ascender.rules import Rules
from ascender.schedule import Adaptive, LossWeights, Ramp, Schedule

__version__ = "0.1.0"
__all__ = [
    "Adaptive",
    "AscenderAttention",
    "Cache",
    "LossWeights",
    "Losses",
    "LowRank",
    "Parts",
    "Ramp",
    "Rules",
    "Schedule",
    "asc_attention",
    "asc_parts",
    "collect",
]
