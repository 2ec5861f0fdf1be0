"""`ascender bench model`: tokens a second of whole models, training and generating.

    training   forward, loss, backward and a step of AdamW on about 4096 tokens
    decode     after N tokens, 32 more, the likeliest each: model(…, past_key_values) in a loop
    generate   the same through transformers' generate(); reading the N tokens is not counted

Every model is the preset "small" (256 wide, 4 layers, 4 heads of 64), so that what differs is the
attention; Llama is transformers' own of the same sizes.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ascender.measure.timing import TRAINING, Row, TimingPlan, best

DECODE, GENERATE = "decode", "generate"
LENGTHS = (128, 1024, 4096)
PLAN = TimingPlan(repeats=5, at_least=0.0, at_most=600.0)
QUICK = ((128, 1024), TimingPlan(repeats=2, at_least=0.0, at_most=120.0))
TOKENS = 4096  # in a batch of training
NEW = 32  # tokens generated
VOCABULARY = 8192
WINDOW = 128
Say = Callable[[str], None]


@dataclass(frozen=True)
class Model:
    """A model by its label; `baseline` is the vanilla model that it is measured by. Options are
    of the attention; None: transformers' Llama."""

    label: str
    baseline: str = "model_vanilla"
    attention: str | None = "ascender"
    position: str = "rope"
    options: tuple[tuple[str, Any], ...] = ()

    def make(self, size: str = "small") -> Any:
        """The model, with the same weights every time."""
        from ascender.hf import AscenderConfig, AscenderForCausalLM

        config = AscenderConfig.preset(
            size, vocab_size=VOCABULARY, attention=self.attention or "vanilla",
            position=self.position, attention_options=dict(self.options),
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return llama(config) if self.attention is None else AscenderForCausalLM(config)


def llama(config: Any) -> Any:
    """transformers' Llama of the same sizes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "intermediate_size", "tie_word_embeddings",
    )  # fmt: skip
    same = {name: getattr(config, name) for name in sizes}
    return LlamaForCausalLM(LlamaConfig(**same, attn_implementation="sdpa"))


# d_z = 15: with ‖z‖² the columns of cohesion are a round 16.
SHARED = (("geometry", "shared"), ("d_z", 15))
NORM = (*SHARED, ("qk_norm", True))
MODELS: dict[str, Model] = {
    "model_vanilla": Model("vanilla", attention="vanilla"),
    "model_llama": Model("transformers' Llama, SDPA", attention=None),
    "model_per_head": Model("ascender, per head", options=(("d_z", 15),)),
    "model_shared": Model("ascender, shared", options=SHARED),
    "model_shared_norm": Model("ascender, shared, QK-norm", options=NORM),
    "model_window": Model(f"… and w = {WINDOW}", options=(*NORM, ("window", WINDOW))),
    "model_vanilla_none": Model(
        "vanilla, no rotary positions", "model_vanilla_none", "vanilla", "none"
    ),
    "model_shared_norm_none": Model(
        "ascender, shared, QK-norm, no rotary positions", "model_vanilla_none", position="none",
        options=NORM,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ModelRow(Row):
    """`speed` is tokens a second, × those of the model `baseline` at the same n and work."""

    baseline: str
    tokens_s: float | None = None
    speed: float | None = None


def prompt(batch: int, n: int) -> Tensor:
    return torch.randint(VOCABULARY, (batch, n), generator=torch.Generator().manual_seed(0))


def training(model: Any, n: int) -> Callable[[], float]:
    """Seconds of a step."""
    ids = prompt(max(1, TOKENS // n), n)
    optimiser = torch.optim.AdamW(model.train().parameters(), lr=1e-4)

    def step() -> float:
        start = time.perf_counter()
        model(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return time.perf_counter() - start

    return step


def decoding(model: Any, n: int) -> Callable[[], float]:
    """Seconds of NEW tokens after n, token by token; every turn goes on from the same cache."""
    with torch.no_grad():
        read = model.eval()(input_ids=prompt(1, n), use_cache=True)
    first = read.logits[:, -1:].argmax(-1)

    @torch.no_grad()
    def run() -> float:
        cache, token = copy.deepcopy(read.past_key_values), first
        start = time.perf_counter()
        for _ in range(NEW):
            out = model(input_ids=token, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
        return time.perf_counter() - start

    return run


class TokenTimes:
    """A streamer of generate() that notes when tokens come: the prompt, then one at a time."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: Tensor) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass

    @property
    def seconds(self) -> float:
        """From the first new token to the last."""
        return self.times[-1] - self.times[1]


def generating(model: Any, n: int) -> Callable[[], float]:
    """Seconds of NEW tokens after the first that follows n."""
    ids = prompt(1, n)
    model.eval().generation_config.eos_token_id = None

    def run() -> float:
        times = TokenTimes()
        model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW + 1, do_sample=False,
            streamer=times, pad_token_id=0,
        )  # fmt: skip
        return times.seconds

    return run


JOBS: dict[str, Callable[[Any, int], Callable[[], float]]] = {
    TRAINING: training, DECODE: decoding, GENERATE: generating,
}  # fmt: skip


def run(
    lengths: Sequence[int] = LENGTHS, plan: TimingPlan = PLAN, say: Say = lambda line: None,
    works: Sequence[str] = tuple(JOBS), size: str = "small",
) -> list[ModelRow]:  # fmt: skip
    """All rows: models take turns within a length and a work."""
    rows: list[ModelRow] = []
    for work in works:
        for n in lengths:
            say(f"timing {work}, N = {n}")
            calls = {name: JOBS[work](model.make(size), n) for name, model in MODELS.items()}
            tokens = max(1, TOKENS // n) * n if work == TRAINING else NEW
            rows += _rows(n, work, tokens, best(calls, plan, clock=lambda call: call()))
    return rows


def _rows(n: int, work: str, tokens: int, seconds: Mapping[str, float]) -> list[ModelRow]:
    found = []
    for name, s in seconds.items():
        own = MODELS[name].baseline
        ratio = s / seconds[own]
        found.append(
            ModelRow(name, n, work, 1e3 * s, ratio, None, own, tokens / s, speed=1 / ratio)
        )
    return found
