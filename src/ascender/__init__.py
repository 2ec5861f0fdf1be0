"""ASCender: attention with alignment, separation and cohesion."""

from ascender.attention import asc_attention, asc_parts
from ascender.cache import Cache
from ascender.combine import LowRank, Parts
from ascender.module import AscenderAttention
from ascender.rules import Rules

__version__ = "0.1.0"
__all__ = [
    "AscenderAttention",
    "Cache",
    "LowRank",
    "Parts",
    "Rules",
    "asc_attention",
    "asc_parts",
]
