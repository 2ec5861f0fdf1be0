"""The terms of one attention of a trained model on a test example, stored beside the trials, so
that a report draws figure 1 without a checkpoint.

    DIR/trials/KEY/maps.safetensors.gz     in the folder of a trial
    DIR/maps/KEY.safetensors.gz            beside packed trials; a model that several suites show
                                           is there once

Half precision, gzip: a few KB for 25 tokens, at most about 100 KB (96 tokens). One trial of a suite
is shown, the first with rules; its layer and head are those where the rules change the scores most.
"""

from __future__ import annotations

import gzip
import json
import struct
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ascender.common.files import Damaged, checked, plain_name, write
from ascender.core.combine import Parts
from ascender.core.rules import RULES
from ascender.insight import load
from ascender.lab.judge import Record, omega
from ascender.lab.store import SHEET, Store
from ascender.train.folder import MODEL
from ascender.train.run import Run

TERMS = ("base", *RULES, "aff", "total", "weights")
MOST = 96  # tokens kept; of a longer example the first ones
NAMED = 16  # tokens that still have room for their names
FOLDER, SUFFIX = "maps", "safetensors.gz"
EXPECTED = "maps that ascender lab wrote"


@dataclass(frozen=True)
class ScoreMaps:
    """Terms (N, M) of one head, and the trial they are from; layer and head from 0."""

    task: str
    variant: str
    seed: int
    key: str
    layer: int
    head: int
    terms: dict[str, np.ndarray]
    tokens: tuple[str, ...] = ()


def shown(records: Sequence[Record]) -> list[Record]:
    """The trials that can be shown: of "ascender", or of the first variant that has ω."""
    ruled = [r for r in records if omega(r)]
    names = [r["run"]["variant"] for r in ruled]
    name = "ascender" if "ascender" in names else next(iter(names), None)
    return [r for r in ruled if r["run"]["variant"] == name]


def kept_file(folder: Path, key: str) -> Path | None:
    """The file of a trial's maps in a store, packed or not; None: there is none."""
    places = [Store(folder).place(key) / f"maps.{SUFFIX}", packed_file(folder, key)]
    if (folder / SHEET).exists():  # of a suite in a folder of several
        places.append(packed_file(folder.parent, key))
    return next((path for path in places if path.exists()), None)


def packed_file(folder: Path, key: str) -> Path:
    """The file of a trial's maps beside packed trials."""
    return folder / FOLDER / f"{plain_name('a trial', key)}.{SUFFIX}"


def keep(
    folder: Path, records: Sequence[Record], data_dir: str | None = None,
    say: Callable[[str], None] = warnings.warn,
) -> Path | None:  # fmt: skip
    """The file with the maps of a suite, written from a trial's model where there is none yet; None
    where no trial has rules, or no model is there. What goes wrong is said, not raised."""
    candidates = shown(records)
    for record in candidates:
        path = kept_file(folder, record["key"])
        if path is not None:
            return path
    for record in candidates:
        place = Store(folder).place(record["key"])
        if (place / MODEL).is_dir():
            try:
                return write(place / f"maps.{SUFFIX}", as_bytes(of_model(record, place, data_dir)))
            except (OSError, ValueError, ModuleNotFoundError, NotImplementedError) as error:
                say(f"no attention maps of {record['key']}: {error}")
                return None
    return None


def of_model(record: Record, place: Path, data_dir: str | None = None) -> ScoreMaps:
    """The maps of a trial's trained model, on the first test example of its task."""
    run = Run(**record["run"])
    task = run.make_task(data_dir)
    model = load(place / MODEL, say=lambda line: None).model
    batch = next(iter(task.eval_batches("test", 1)))
    with torch.no_grad():
        output = model(**task.inputs(batch), labels=batch.labels, output_parts=True)
    layers: tuple[Parts, ...] = getattr(output, "parts", None) or output.encoder_parts
    real = _real(batch.inputs.get("attention_mask"))
    moved = torch.stack([
        sum((getattr(p, rule)[0].abs().mean((-1, -2)) for rule in RULES), torch.zeros(()))
        for p in layers
    ])  # fmt: skip
    layer, head = divmod(int(moved.argmax()), moved.shape[1])
    parts = layers[layer]
    terms = {t: _cut(getattr(parts, t), head, real) for t in TERMS if t != "aff" or parts.aff.any()}
    tokens = _tokens(task.tokenizer, batch.inputs.get("input_ids"), len(terms["base"]))
    return ScoreMaps(run.task, run.variant, run.seed, record["key"], layer, head, terms, tokens)


def _real(mask: Tensor | None) -> int:
    return MOST if mask is None else min(MOST, int(mask[0].sum()))


def _cut(term: Tensor, head: int, n: int) -> np.ndarray:
    one = term[0, head if term.shape[1] > 1 else 0, :n, :n]
    return one.double().numpy()


def _tokens(tokenizer: Any, ids: Tensor | None, n: int) -> tuple[str, ...]:
    if tokenizer is None or ids is None or n > NAMED:
        return ()
    return tuple(str(tokenizer.decode([i])).replace(" ", "␣") for i in ids[0, :n].tolist())


# --- as a file


def as_bytes(maps: ScoreMaps) -> bytes:
    """The maps as a file; the same maps give the same bytes."""
    from safetensors.numpy import save

    about = {
        "task": maps.task, "variant": maps.variant, "seed": maps.seed, "key": maps.key,
        "layer": maps.layer, "head": maps.head, "tokens": list(maps.tokens),
    }  # fmt: skip
    terms = {name: np.ascontiguousarray(m, dtype=np.float16) for name, m in maps.terms.items()}
    data = save(terms, {"maps": json.dumps(about, ensure_ascii=False, sort_keys=True)})
    return gzip.compress(data, compresslevel=9, mtime=0)


def read(path: Path) -> ScoreMaps:
    """The maps in a file; a damaged file is an error that names it."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as tensors

    try:
        data = gzip.decompress(path.read_bytes())
        terms = {name: m.astype(np.float64) for name, m in tensors(data).items()}
        (size,) = struct.unpack("<Q", data[:8])
        about = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["maps"])
    except (
        SafetensorError, zlib.error, EOFError, gzip.BadGzipFile, KeyError, ValueError, struct.error,
    ) as error:  # fmt: skip
        raise Damaged(path, error, EXPECTED) from None
    about = checked(
        about, path, EXPECTED, task=str, variant=str, seed=int, key=str, layer=int, head=int,
        tokens=list,
    )  # fmt: skip
    named = {name: about[name] for name in ("task", "variant", "seed", "key", "layer", "head")}
    if missing := [name for name in TERMS if name != "aff" and name not in terms]:
        raise Damaged(path, f"{missing[0]!r} is missing", EXPECTED)
    inorder = {name: terms[name] for name in TERMS if name in terms}
    return ScoreMaps(**named, terms=inorder, tokens=tuple(map(str, about["tokens"])))
