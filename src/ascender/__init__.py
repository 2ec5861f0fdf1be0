"""ASCender: attention with alignment, separation and cohesion."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascender.core.attention import asc_attention, asc_parts
    from ascender.core.combine import LowRank, Parts
    from ascender.core.losses import Losses, collect
    from ascender.core.rules import Rules
    from ascender.core.schedule import Adaptive, LossWeights, Ramp, Schedule
    from ascender.core.varlen import asc_attention_varlen
    from ascender.hf.retrofit.adapter_files import load_adapter, save_adapter
    from ascender.hf.retrofit.distil import distil_index
    from ascender.hf.retrofit.install import (
        print_trainable_parameters,
        retrofit,
        swarm_parameters,
        unretrofit,
    )
    from ascender.nn.cache import Cache
    from ascender.nn.module import AscenderAttention

__version__ = "0.2.0"
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
    "asc_attention_varlen",
    "asc_parts",
    "collect",
    "distil_index",
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
    "Adaptive": "core.schedule",
    "AscenderAttention": "nn.module",
    "Cache": "nn.cache",
    "LossWeights": "core.schedule",
    "Losses": "core.losses",
    "LowRank": "core.combine",
    "Parts": "core.combine",
    "Ramp": "core.schedule",
    "Rules": "core.rules",
    "Schedule": "core.schedule",
    "asc_attention": "core.attention",
    "asc_attention_varlen": "core.varlen",
    "asc_parts": "core.attention",
    "collect": "core.losses",
    "distil_index": "hf.retrofit.distil",
    "load_adapter": "hf.retrofit.adapter_files",
    "print_trainable_parameters": "hf.retrofit.install",
    "retrofit": "hf.retrofit.install",
    "save_adapter": "hf.retrofit.adapter_files",
    "swarm_parameters": "hf.retrofit.install",
    "unretrofit": "hf.retrofit.install",
}


def __getattr__(name: str) -> Any:
    """A public name, or a module: `import ascender; ascender.hf` works without a second import."""
    from importlib import import_module
    from importlib.util import find_spec

    if name in HOMES:
        value = globals()[name] = getattr(import_module(f"ascender.{HOMES[name]}"), name)
        return value
    if name.startswith("_") or find_spec(f"ascender.{name}") is None:
        raise AttributeError(f"module 'ascender' has no attribute {name!r}")
    return import_module(f"ascender.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
