"""ASCender: attention with alignment, separation and cohesion."""

from typing import TYPE_CHECKING, Any

from ascender.attention import asc_attention, asc_parts
from ascender.cache import Cache
from ascender.combine import LowRank, Parts
from ascender.losses import Losses, collect
from ascender.module import AscenderAttention
from ascender.rules import Rules
from ascender.schedule import Adaptive, LossWeights, Ramp, Schedule

if TYPE_CHECKING:
    from ascender.hf.adapter import load_adapter, save_adapter
    from ascender.hf.retrofit import retrofit, swarm_parameters, unretrofit

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
    "load_adapter",
    "retrofit",
    "save_adapter",
    "swarm_parameters",
    "unretrofit",
]

# What needs transformers is imported when it is first asked for.
LATER = {
    "load_adapter": "adapter",
    "retrofit": "retrofit",
    "save_adapter": "adapter",
    "swarm_parameters": "retrofit",
    "unretrofit": "retrofit",
}


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'ascender' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"ascender.hf.{LATER[name]}"), name)
