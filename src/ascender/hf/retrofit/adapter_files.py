"""What a retrofit has learned, as files: swarm.safetensors and swarm.json.

    save_adapter(model, folder)
    load_adapter(model, folder)      retrofits the model as it was there, if it is not yet

The JSON says which version of these files it is, for which family and sizes, with which rules and
in which layers; a model that it does not fit is refused before anything is changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from ascender.common.files import NUMBER, Damaged, checked, read_json, read_tensors, write
from ascender.core.schedule import get_lam, set_lam
from ascender.hf.retrofit.install import (
    DEFAULTS,
    check_model,
    record,
    retrofit,
    swarms,
    unretrofit,
)
from ascender.hf.retrofit.probe import UnsupportedModel, self_attentions

VERSION = 1
WEIGHTS, SHEET = "swarm.safetensors", "swarm.json"
WROTE = "what save_adapter wrote"
SIZES = ("hidden_size", "num_attention_heads", "num_key_value_heads")


def save_adapter(model: nn.Module, folder: str | Path) -> Path:
    """Write the swarm of a retrofitted model; returns the folder."""
    done = record(model)
    if done is None:
        raise ValueError("the model has not been retrofitted; expected one that is")
    folder = Path(folder)
    sheet = {
        "version": VERSION, **fingerprint(model), "layers": done.layers, "rules": done.rules,
        "train": done.train, "lam": get_lam(model),
    }  # fmt: skip
    write(folder / WEIGHTS, save({name: t.detach().cpu() for name, t in tensors(model).items()}))
    write(folder / SHEET, json.dumps(sheet, indent=2) + "\n")
    return folder


def load_adapter(model: nn.Module, folder: str | Path, train: str = "swarm") -> nn.Module:
    """Give a model a saved swarm. One that is not retrofitted yet is retrofitted with the saved
    rules and layers (`train` as in retrofit); returns it."""
    check_model(model)
    folder = Path(folder)
    sheet = read_sheet(folder)
    _check(model, sheet, folder / SHEET)
    saved = read_tensors(folder / WEIGHTS, WROTE)
    fresh = record(model) is None
    if fresh:
        try:
            retrofit(model, sheet["rules"], sheet["layers"], train)
        except UnsupportedModel:
            raise
        except (TypeError, ValueError) as error:  # rules or layers that there are not
            raise Damaged(folder / SHEET, error, WROTE) from error
    try:
        _fill(model, saved)
    except AdapterMismatch:
        if fresh:
            unretrofit(model)
        raise
    set_lam(model, sheet.get("lam", {}))
    return model


def read_sheet(folder: Path) -> dict[str, Any]:
    """What swarm.json says of an adapter; "lam" and "train" may be absent."""
    for name in (SHEET, WEIGHTS):
        if not (folder / name).exists():
            raise FileNotFoundError(f"no {name} in {folder}; expected {WROTE}")
    path = folder / SHEET
    sheet = read_json(path, WROTE)
    version = sheet.get("version")
    if version != VERSION:
        raise AdapterMismatch(f"{path} is of version {version!r}; expected {VERSION}")
    checked(sheet, path, WROTE, family=str, sizes=dict, rules=dict, layers=list)
    lam = checked(sheet.get("lam", {}), path, WROTE)
    checked(lam, path, WROTE, **dict.fromkeys(lam, NUMBER))
    return sheet


class AdapterMismatch(ValueError):
    """An adapter for another model."""


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The swarm's parameters by the number of their layer: 3.U.weight."""
    places = {name: i for i, name in enumerate(self_attentions(model))}
    return {
        f"{places[name.removesuffix('.swarm')]}.{key}": t
        for name, swarm in swarms(model).items()
        for key, t in swarm.state_dict(keep_vars=True).items()
    }


def fingerprint(model: nn.Module) -> dict[str, Any]:
    """What an adapter must agree with."""
    modules = self_attentions(model)
    if not modules:
        raise UnsupportedModel(
            f"{type(model).__name__} has no self-attention that asks the interface"
        )
    config: Any = next(iter(modules.values())).config
    return {
        "family": config.model_type,
        "sizes": {"layers": len(modules)} | {name: getattr(config, name, None) for name in SIZES},
    }


def _check(model: nn.Module, sheet: dict[str, Any], path: Path) -> None:
    here = fingerprint(model)
    if sheet["family"] != here["family"]:
        raise AdapterMismatch(
            f"{path} is for {sheet['family']!r}; expected one for {here['family']!r}"
        )
    for name, size in here["sizes"].items():
        if sheet["sizes"].get(name) != size:
            raise AdapterMismatch(
                f"{path} is for {name} = {sheet['sizes'].get(name)}; expected {size}, "
                "as the model has"
            )
    done = record(model)
    saved = {**DEFAULTS, **sheet["rules"]}  # an older file lacks options that came later
    if done is not None and done.rules["scope"] != saved["scope"]:
        raise AdapterMismatch(
            f"{path} has scope {saved['scope']!r}; expected {done.rules['scope']!r}, as the model "
            "has, or a model without (unretrofit it)"
        )
    if done is not None and (done.rules, done.layers) != (saved, sheet["layers"]):
        raise AdapterMismatch(
            f"{path} has rules {sheet['rules']} in layers {sheet['layers']}; "
            f"expected {done.rules} in {done.layers}, as the model has, or a model without"
        )


@torch.no_grad()
def _fill(model: nn.Module, saved: dict[str, Tensor]) -> None:
    own = tensors(model)
    if set(own) != set(saved):
        odd = sorted(set(own) ^ set(saved))
        raise AdapterMismatch(f"the adapter and the model differ in {', '.join(odd[:3])} …")
    for name, t in own.items():
        if t.shape != saved[name].shape:
            raise AdapterMismatch(
                f"{name} has shape {tuple(saved[name].shape)}; expected {tuple(t.shape)}"
            )
    for name, t in own.items():
        t.copy_(saved[name])
