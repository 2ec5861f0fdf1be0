"""Load a model and its tokenizer from a folder or by its name on the Hub. A missing or damaged file
is an error that names it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import transformers

import ascender.hf
from ascender.common.files import Damaged, reason
from ascender.common.validate import nearest
from ascender.hf.configuration import admit_code
from ascender.hf.tokens import BYTES, bytes_tokenizer

CONFIG, MODEL = "config.json", "model"  # the folder in a run of `ascender train`
WROTE = "what save_pretrained or ascender train wrote"
FOLDER = "a folder that save_pretrained or ascender train wrote"
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json")
SECONDS = 10  # for the Hub to say whether it has a model


def saved_class(config: Any, where: str) -> Any:
    """The class that a config names; transformers' AutoModel where it names none that is known."""
    name = (config.architectures or [""])[0]
    return (
        getattr(ascender.hf, name, None)
        or getattr(transformers, name, None)
        or transformers.AutoModel
    )


def load_model(
    source: str | Path, adapter: str | Path | None = None, trust_code: bool = False,
    class_of: Callable[[Any, str], Any] = saved_class,
) -> tuple[str, Any]:  # fmt: skip
    """(where it was found, the model); with an adapter, retrofitted. `class_of(config, where)`
    chooses the model's class. Code that the config names (module:Class) is used where it is
    imported already, or with `trust_code`, which imports it."""
    from ascender.hf.retrofit.adapter_files import load_adapter

    where = find_model(source)
    model = read_model(class_of(read_config(where, trust_code), where), where)
    return where, model if adapter is None else load_adapter(model, adapter)


def find_model(source: str | Path) -> str:
    """The folder with the model's config.json, or its name where it is one of the Hub's.

    What looks like a path is looked for on the disk alone: /a, ./a, a/b/c, and a/b where there is
    a folder a. Of any other name the Hub is asked once, without the retries of a download."""
    folder = Path(source)
    if folder.is_file():
        raise FileNotFoundError(f"{source} is a file; expected {FOLDER}")
    if folder.is_dir():
        if (folder / MODEL / CONFIG).is_file():
            folder = folder / MODEL
        if not (folder / CONFIG).is_file():
            raise FileNotFoundError(f"no {CONFIG} in {folder}; expected {WROTE}")
        return str(folder)
    if looks_like_path(str(source)):
        raise FileNotFoundError(f"no folder {source}{_near(folder)}; expected {FOLDER}")
    _ask(str(source))
    return str(source)


def looks_like_path(source: str) -> bool:
    """Whether it cannot be org/name, or a folder org is here.

    >>> [looks_like_path(s) for s in ("./a", "/a/b", "a/b/c", "a/", "gpt2", "no-such-org/gpt2")]
    [True, True, True, True, False, False]
    """
    parts = source.replace(os.sep, "/").split("/")
    return (
        source.startswith((".", "~"))
        or len(parts) > 2
        or "" in parts
        or (len(parts) == 2 and Path(parts[0]).is_dir())
    )


def _near(folder: Path) -> str:
    """The folder beside it whose name is nearest."""
    beside = folder.parent
    there = [str(beside / p.name) for p in beside.iterdir()] if beside.is_dir() else []
    return nearest(str(folder), there)


def _ask(name: str) -> None:
    """OSError where neither the cache nor the Hub has the model."""
    from huggingface_hub import HfApi, constants, try_to_load_from_cache

    try:
        if isinstance(try_to_load_from_cache(name, CONFIG), str):
            return
        HfApi().model_info(name, timeout=SECONDS)
    except Exception as error:  # of the Hub, of httpx or requests, of a name that cannot be one
        raise OSError(
            f"no model {name!r}: no folder of that name, and {constants.ENDPOINT} does not give it "
            f"({reason(error, 120)}); expected {FOLDER}, or a name that the Hub has"
        ) from error


def read_config(where: str, trust_code: bool = False) -> Any:
    """Of what find_model found. Code that it names is used where it is imported already, or with
    `trust_code`, which imports it."""
    try:
        admit_code(where, trust_code)
    except (OSError, RecursionError, UnicodeError, AttributeError, TypeError) as error:
        raise Damaged(_file(where, CONFIG), error, WROTE) from error
    try:
        config = transformers.AutoConfig.from_pretrained(where)
    except Exception as error:  # whatever transformers' classes make of the fields
        raise Damaged(_file(where, CONFIG), error, WROTE) from error
    kinds = config.architectures
    if not (kinds is None or (isinstance(kinds, list) and all(isinstance(k, str) for k in kinds))):
        raise Damaged(_file(where, CONFIG), f"architectures = {kinds!r}", "a list of class names")
    return config


def read_model(kind: Any, where: str, **given: Any) -> Any:
    """kind.from_pretrained(where), without its progress bar; of safetensors, never of a pickle."""
    if Path(where).is_dir() and not any(Path(where).glob("*.safetensors*")):
        raise Damaged(_weights(where), "no safetensors", "weights that save_pretrained wrote")
    logging = transformers.utils.logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return kind.from_pretrained(where, use_safetensors=True, **given)
    except Exception as error:  # safetensors', pickle's, torch's: of a damaged file any
        raise Damaged(_weights(where), error, f"the weights of its {CONFIG}") from error
    finally:
        if bars:
            logging.enable_progress_bar()


def tokenizer_of(where: str, vocab_size: int, say: Callable[[str], None]) -> Any:
    """The model's tokenizer; bytes where its folder has none and the vocabulary has room."""
    folder = Path(where)
    if not folder.is_dir():
        return transformers.AutoTokenizer.from_pretrained(where)
    files = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
    there = [name for name in files if (folder / name).is_file()]
    if there:
        try:
            return transformers.AutoTokenizer.from_pretrained(where)
        except Exception as error:  # a tokenizer's class may raise anything on a damaged file
            what = "a tokenizer that save_pretrained wrote"
            raise Damaged(folder / ", ".join(there), error, what) from error
    if vocab_size < BYTES:
        raise ValueError(
            f"{where} has no tokenizer and vocab_size = {vocab_size}; expected a tokenizer.json, "
            f"or at least {BYTES} for bytes"
        )
    say(f"{where} has no tokenizer: reading and writing bytes (ascender.hf.tokens)")
    return bytes_tokenizer()


def _weights(where: str) -> str:
    """The files with the weights, as an error names them."""
    folder = Path(where)
    if not folder.is_dir():
        return where
    names = sorted({path.name for pattern in WEIGHTS for path in folder.glob(pattern)})
    few = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return str(folder / few) if few else f"{folder} (which has no model.safetensors)"


def _file(where: str, name: str) -> str:
    return str(Path(where) / name) if Path(where).is_dir() else f"{name} of {where}"
