"""A retrofitted model through transformers' own save_pretrained and from_pretrained.

    model.save_pretrained(folder)                 the whole state dict, and what save_adapter writes
    AutoModelForCausalLM.from_pretrained(folder)  the model, retrofitted as it was

So transformers' Trainer saves and resumes it as any other. config.json names the attention
"ascender", which `import ascender.hf` registers: without it transformers refuses to load the
folder, where it would otherwise leave the adapter out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import cached_file

from ascender.hf.retrofit.adapter_files import (
    SHEET,
    WEIGHTS,
    load_adapter,
    read_sheet,
    save_adapter,
)
from ascender.hf.retrofit.install import record, swarms
from ascender.hf.retrofit.rule_adapter import NAME

SWARM = r"\.swarm\."  # in the names of an adapter's tensors
HUB = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")


def install() -> None:
    """Give transformers' models the two methods below, once."""
    if hasattr(PreTrainedModel.save_pretrained, "ascender"):
        return
    save, load = PreTrainedModel.save_pretrained, PreTrainedModel.from_pretrained.__func__
    signature = inspect.signature(save)

    @functools.wraps(save)
    def save_pretrained(self: Any, *args: Any, **options: Any) -> Any:
        if not swarms(self):
            return save(self, *args, **options)
        given = signature.bind(self, *args, **options).arguments
        _check_saving(self, given)
        if given.get("is_main_process", True):
            save_adapter(self, given["save_directory"])
        with _named(self.config):
            return save(self, *args, **options)

    @functools.wraps(load)
    def from_pretrained(
        cls: Any, pretrained_model_name_or_path: Any, *args: Any, **options: Any
    ) -> Any:
        name = pretrained_model_name_or_path
        if not _is_retrofitted(name, options):
            return load(cls, name, *args, **options)
        if getattr(options.get("config"), "_attn_implementation", NAME) == NAME:
            options.setdefault("attn_implementation", None)  # the default: the retrofit brings ours
        with _expecting_adapter(cls):
            loaded = load(cls, name, *args, **options)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        folder = _adapter_folder(name, options)
        load_adapter(model, folder, read_sheet(folder).get("train", "swarm"))
        return loaded

    save_pretrained.ascender = True  # type: ignore[attr-defined]
    PreTrainedModel.save_pretrained = save_pretrained
    PreTrainedModel.from_pretrained = classmethod(from_pretrained)


def _check_saving(model: nn.Module, given: dict[str, Any]) -> None:
    if record(model) is None:
        where = [name for name, m in model.named_modules() if record(m) is not None]
        raise ValueError(
            f"save_pretrained of a model of which {', '.join(where) or 'a part'} was retrofitted; "
            "expected the part itself, or save_adapter of it"
        )
    if given.get("push_to_hub"):
        raise ValueError(
            "push_to_hub = True, which leaves out the adapter's files; expected "
            "model.push_to_hub(…)"
        )


@contextmanager
def _named(config: Any) -> Iterator[None]:
    """config.json names our attention meanwhile."""
    config.attn_implementation = NAME
    try:
        yield
    finally:
        del config.attn_implementation


@contextmanager
def _expecting_adapter(cls: Any) -> Iterator[None]:
    """No report of the adapter's tensors as unexpected, meanwhile: they are loaded after."""
    own = vars(cls).get("_keys_to_ignore_on_load_unexpected", _expecting_adapter)
    cls._keys_to_ignore_on_load_unexpected = [
        *(cls._keys_to_ignore_on_load_unexpected or []),
        SWARM,
    ]
    try:
        yield
    finally:
        if own is _expecting_adapter:
            del cls._keys_to_ignore_on_load_unexpected
        else:
            cls._keys_to_ignore_on_load_unexpected = own


def _hub(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in HUB if name in options}


def _is_retrofitted(name: Any, options: dict[str, Any]) -> bool:
    """Whether config.json says so."""
    if name is None or options.get("gguf_file"):
        return False
    try:
        config, _ = PreTrainedConfig.get_config_dict(name, **_hub(options))
    except (OSError, ValueError):
        return False  # no config.json: transformers' error to raise, not ours
    return config.get("attn_implementation") == NAME


def _adapter_folder(name: Any, options: dict[str, Any]) -> Path:
    for file in (WEIGHTS, SHEET):
        path = cached_file(name, file, **_hub(options))
    return Path(path).parent
