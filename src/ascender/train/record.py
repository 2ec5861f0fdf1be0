"""The record of a run: what it was, where it ran, what came out."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ascender.bench.flops import count
from ascender.rules import RULES
from ascender.slot import Attention

PACKAGES = ("ascender-attention", "torch", "numpy", "transformers", "accelerate")


def versions() -> dict[str, str]:
    """Of Python and of what the numbers come from."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def hardware(device: torch.device) -> dict[str, Any]:
    """What it ran on; no names of machines."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, Any] = {
        "machine": platform.machine(), "system": platform.system(), "cores": cores,
        "threads": torch.get_num_threads(), "device": device.type,
    }  # fmt: skip
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def attentions(model: nn.Module) -> list[Attention]:
    """Every attention in it, from the first layer to the last."""
    return [module for module in model.modules() if isinstance(module, Attention)]


def omegas(model: nn.Module) -> dict[str, list[list[float]]]:
    """ω of each rule, by layer and head, of the layers that have rules."""
    layers = [a for a in attentions(model) if hasattr(a, "omega_align")]
    if not layers:
        return {}
    return {rule: [_plain(getattr(layer, f"omega_{rule}")) for layer in layers] for rule in RULES}


def _plain(t: Tensor) -> list[float]:
    return [round(x, 6) for x in t.detach().flatten().tolist()]


def attention_flops(model: nn.Module, inputs: Mapping[str, Tensor]) -> int:
    """Products inside the attentions in one forward pass over the inputs, projections included
    (bench.flops.count says what counts)."""
    calls: list[tuple[Attention, tuple[Any, ...], dict[str, Any]]] = []

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert isinstance(module, Attention)
        calls.append((module, args, {k: v for k, v in kwargs.items() if k not in CACHES}))

    handles = [a.register_forward_pre_hook(hook, with_kwargs=True) for a in attentions(model)]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    with torch.no_grad():
        return sum(count(lambda m=m, a=a, k=k: m(*a, **k)) for m, a, k in calls)  # type: ignore[misc]


CACHES = ("cache",)  # filled by the first call: the second would go on from there
