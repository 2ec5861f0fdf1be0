"""The record of a run: its settings, where it ran, its results."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ascender.common.files import NUMBER, Kind, checked, read_json
from ascender.core.backends.native import without_native
from ascender.core.rules import RULES
from ascender.measure import machine
from ascender.measure.flops import count
from ascender.nn.slot import Attention

# What reports and comparisons read of a record; there may be more.
FIELDS: dict[str, Kind] = {
    "key": str, "run": dict, "metric": str, "higher": bool, "chance": NUMBER, "test": dict,
    "validation": (*NUMBER, type(None)), "best_step": int, "steps": int, "curve": list,
    "parameters": int, "attention_flops_an_example": NUMBER, "seconds": NUMBER, "tokens": int,
    "tokens_a_second": NUMBER, "data_share": NUMBER, "peak_memory_mb": NUMBER,
    "versions": dict, "hardware": dict,
}  # fmt: skip
OF_RUN: dict[str, Kind] = {"task": str, "variant": str, "seed": int, "options": dict}
OF_TEST: dict[str, Kind] = {"value": NUMBER, "loss": NUMBER, "levels": dict, "n": int}
EXPECTED = "a record that ascender train wrote"
PACKAGES = ("ascender-attention", "torch", "numpy", "transformers", "accelerate")


def read_record(path: Path) -> dict[str, Any]:
    """A record.json; a missing field is an error that names it."""
    return checked_record(read_json(path, EXPECTED), path)


def checked_record(record: Any, path: Path | str) -> dict[str, Any]:
    """A record from a file; its fields are checked."""
    if isinstance(record, dict) and "floor" in record:  # the name of `chance` before 0.2
        record = {"chance" if name == "floor" else name: x for name, x in record.items()}
    checked(record, path, EXPECTED, **FIELDS)
    checked(record["run"], f"{path}, run", EXPECTED, **OF_RUN)
    checked(record["test"], f"{path}, test", EXPECTED, **OF_TEST)
    for i, point in enumerate(record["curve"]):
        checked(point, f"{path}, curve {i}", EXPECTED, step=int, value=NUMBER, omega=dict)
    return dict(record)


def versions() -> dict[str, str]:
    """Of Python and of what the numbers come from."""
    packages = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = "not installed"
    return packages


def hardware(device: torch.device) -> dict[str, Any]:
    """What it ran on, without host names."""
    gpu = machine.gpu(device) if device.type == "cuda" else {}
    return {
        "machine": platform.machine(), "system": platform.system(), "cores": machine.cores(),
        "threads": torch.get_num_threads(), "device": device.type,
        "processor": machine.processor(), "ram_gb": machine.ram_gb(), **gpu,
    }  # fmt: skip


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
    (measure.flops.count says what counts). Those of the torch operators, whichever backend runs:
    so the number does not depend on the machine."""
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
    with torch.no_grad(), without_native():
        return sum(count(lambda m=m, a=a, k=k: m(*a, **k)) for m, a, k in calls)  # type: ignore[misc]


CACHES = ("cache",)  # filled by the first call: the second would go on from there
