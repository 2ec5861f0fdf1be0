"""ASCender: attention with alignment, separation and cohesion."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascender.attention import asc_attention, asc_parts
    from ascender.cache import Cache
    from ascender.combine import LowRank, Parts
    from ascender.hf.adapter import load_adapter, save_adapter
    from ascender.hf.retrofit import (
        print_trainable_parameters,
        retrofit,
        swarm_parameters,
        unretrofit,
    )
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
    "load_adapter",
    "print_trainable_parameters",
    "retrofit",
    "save_adapter",
    "swarm_parameters",
    "unretrofit",
]

# Where each is. Imported at first use: the command line's --help must not wait for torch, and
# those under hf need transformers.
HOMES = {
    "Adaptive": "schedule",
    "AscenderAttention": "module",
    "Cache": "cache",
    "LossWeights": "schedule",
    "Losses": "losses",
    "LowRank": "combine",
    "Parts": "combine",
    "Ramp": "schedule",
    "Rules": "rules",
    "Schedule": "schedule",
    "asc_attention": "attention",
    "asc_parts": "attention",
    "collect": "losses",
    "load_adapter": "hf.adapter",
    "print_trainable_parameters": "hf.retrofit",
    "retrofit": "hf.retrofit",
    "save_adapter": "hf.adapter",
    "swarm_parameters": "hf.retrofit",
    "unretrofit": "hf.retrofit",
}


def __getattr__(name: str) -> Any:
    """A public name, or a module: `import ascender; ascender.rules` works without a second
    import."""
    from importlib import import_module
    from importlib.util import find_spec

    if name in HOMES:
        found = globals()[name] = getattr(import_module(f"ascender.{HOMES[name]}"), name)
        return found
    if name.startswith("_") or find_spec(f"ascender.{name}") is None:
        raise AttributeError(f"module 'ascender' has no attribute {name!r}")
    return import_module(f"ascender.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
