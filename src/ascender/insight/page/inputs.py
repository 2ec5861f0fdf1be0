"""What a page is about: one text, or one example of a task, as a model reads it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from ascender.tasks import Display, Task
from ascender.tasks.base import IGNORED


@dataclass(frozen=True)
class Input:
    """One sequence: what forward takes, a name for each token, what should come out (a class or
    number of the whole, or of every token; None: nothing is asked there), how a task shows it, and
    remarks for the page: (key of strings.py, values)."""

    inputs: dict[str, Tensor]
    tokens: list[str]
    target: list[float | None] | None = None
    display: Display = field(default_factory=Display)
    remarks: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


def of_text(model: nn.Module, tokenizer: Any, text: str, first: int | None = None) -> Input:
    """A text, or its first tokens; cut where the model has no more places."""
    if first is not None and first < 1:
        raise ValueError(f"first = {first}; expected at least 1 token")
    if tokenizer is None:
        raise ValueError(
            "the model has no tokenizer, so it reads no text; expected an example of its task "
            "(--task NAME --example I)"
        )
    if not text.strip():
        raise ValueError(f"text = {text!r}; expected at least one word")
    coded = tokenizer(text, return_tensors="pt", verbose=False)
    takes = inspect.signature(model.forward).parameters
    known = {n: t for n, t in coded.items() if n in takes or n == "input_ids"}
    N, places = known["input_ids"].shape[1], _places(model)
    if N == 0:
        raise ValueError(f"text = {text!r} has no tokens; expected at least one")
    remarks: list[tuple[str, dict[str, Any]]] = []
    room = {"first": first, "cut": places}
    for word, kept in room.items():
        if kept is not None and kept < known["input_ids"].shape[1]:
            known = {name: t[:, :kept] for name, t in known.items()}
            remarks.append((word, {"kept": kept, "of": N}))
    read = pieces(tokenizer, known["input_ids"][0].tolist())
    config: Any = model.config
    if getattr(config, "is_encoder_decoder", False):  # the encoder is shown
        start = config.decoder_start_token_id or 0
        known["decoder_input_ids"] = torch.tensor([[start]])
    ids = known["input_ids"][0].tolist()
    return Input(known, read, [*ids[1:], None] if tells_next(model) else None, remarks=remarks)


def of_task(task: Task, index: int) -> Input:
    """The test example at an index, without the padding behind it."""
    if index < 0:
        raise ValueError(f"example = {index}; expected a number from 0")
    first = 0
    for batch in task.eval_batches("test", 64):
        if index < first + len(batch):
            return _of_batch(task, batch[index - first : index - first + 1])
        first += len(batch)
    raise ValueError(
        f"example = {index}; expected one of the {first} of {task.name}: 0 … {first - 1}"
    )


def _of_batch(task: Task, batch: Any) -> Input:
    given = dict(task.inputs(batch))
    N = next(iter(batch.inputs.values())).shape[1]
    mask = given.get("attention_mask")
    if mask is not None and task.neighbours is None:
        real = int(mask[0].sum())
        if 0 < real < N and bool(mask[0, :real].all()):
            given = {
                n: t[:, :real] if t.shape[1:2] == (N,) and not n.startswith("decoder") else t
                for n, t in given.items()
            }
            N = real
    shown = task.display(batch)
    ids = given.get("input_ids")
    if shown.tokens is not None:
        tokens = list(shown.tokens)[:N]
    elif ids is None:
        tokens = [str(i) for i in range(N)]
    elif task.tokenizer is not None:
        tokens = pieces(task.tokenizer, ids[0].tolist())
    else:
        tokens = [str(i) for i in ids[0].tolist()]
    return Input(given, tokens, _target(task, batch.labels[0], N), shown)


def _target(task: Task, labels: Tensor, N: int) -> list[float | None] | None:
    """Beside the row that should tell it: of a causal model, the row before."""
    if labels.ndim == 0:
        return [labels.item()]
    if task.head not in ("token", "causal"):
        return None
    targets = [None if label == IGNORED else label for label in labels[:N].tolist()]
    return [*targets[1:], None] if task.head == "causal" else targets


def tells_next(model: Any) -> bool:
    """Whether a row of its output is about the next token."""
    kinds = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    own = bool(getattr(getattr(model, "config", None), "is_decoder", False))
    return own or type(model).__name__ in kinds or isinstance(model, GenerationMixin)


def _places(model: nn.Module) -> int | None:
    """How many positions it has learned, where it learns them one by one."""
    sizes = [
        table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
        for name, table in model.named_modules()
        if isinstance(table, nn.Embedding) and "position" in name and "relative" not in name
    ]
    return min(sizes, default=None)


def pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Tokens as people read them: a space where a word begins, ⏎ for the end of a line."""
    return [piece(tokenizer, token) for token in tokenizer.convert_ids_to_tokens(list(ids))]


def piece(tokenizer: Any, token: str | None) -> str:
    if token is None:
        return "?"
    if token in tokenizer.all_special_tokens:
        return token
    if "▁" in token:  # SentencePiece
        text = token.replace("▁", " ")
    elif token.startswith("<0x") and token.endswith(">"):
        code = int(token[3:-1], 16)
        text = chr(code) if code < 128 else token
    elif token.startswith("##"):  # WordPiece
        text = token
    else:
        text = tokenizer.convert_tokens_to_string([token])
        text = token if "\ufffd" in text or not text else text
    text = text.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def to(device: torch.device, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.to(device) for name, t in inputs.items()}
