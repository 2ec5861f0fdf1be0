"""`ascender bench model`: tokens a second of whole models, training and generating.

    training   forward, loss, backward and a step of AdamW on about 4096 tokens
    decode     after N tokens, 32 more, the likeliest each: model(…, past_key_values) in a loop
    generate   the same through transformers' generate(); reading the N tokens is not counted

Every model is the preset "small" (256 wide, 4 layers, 4 heads of 64; on a GPU "medium"), so that
what differs is the attention; Llama is transformers' own of the same sizes.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ascender.bench.candidates import Candidate, on_cpus
from ascender.core.backends.native import without_native
from ascender.measure.flops import Problem
from ascender.measure.timing import TRAINING, Now

DECODE, GENERATE = "decode", "generate"
SIZE, SIZE_ON_GPU = "small", "medium"
SIZES = {
    "small": "256 wide, 4 layers, 4 heads of 64",
    "medium": "512 wide, 8 layers, 8 heads of 64",
}
TOKENS = 4096  # in a batch of training
NEW = 32  # tokens generated
VOCABULARY = 8192
WINDOW = 128
FAR, NEAR = 32, 16  # far keys and window of flock scope
Turn = Callable[[Now], float]  # runs once; seconds by that clock


@dataclass(frozen=True)
class ModelJob:
    """A model of `attention` with these options; None: transformers' Llama. `native`: whether
    the C kernels may run."""

    problem: Problem
    attention: str | None
    position: str
    options: Mapping[str, Any]
    native: bool = True

    def make(self) -> Any:
        """The model, with the same weights every time."""
        from ascender.hf import AscenderConfig, AscenderForCausalLM

        config = AscenderConfig.preset(
            size_on(self.problem.device), vocab_size=VOCABULARY, position=self.position,
            attention=self.attention or "vanilla", attention_options=dict(self.options),
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = llama(config) if self.attention is None else AscenderForCausalLM(config)
        return self.problem.place(model)

    def run(self, work: str) -> Turn:
        turn = JOBS[work](self.make(), self.problem.n)
        return turn if self.native else without_native()(turn)

    def nbytes(self) -> int:
        """Of the weights."""
        return sum(p.numel() * p.element_size() for p in self.make().parameters())


def size_on(device: str) -> str:
    return SIZE if device == "cpu" else SIZE_ON_GPU


def llama(config: Any) -> Any:
    """transformers' Llama of the same sizes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "intermediate_size", "tie_word_embeddings",
    )  # fmt: skip
    same = {name: getattr(config, name) for name in sizes}
    return LlamaForCausalLM(LlamaConfig(**same, attn_implementation="sdpa"))


def prompt(model: Any, batch: int, n: int) -> Tensor:
    noise = torch.Generator().manual_seed(0)
    return torch.randint(VOCABULARY, (batch, n), generator=noise).to(model.device)


def training(model: Any, n: int) -> Turn:
    """Seconds of a step."""
    ids = prompt(model, max(1, TOKENS // n), n)
    optimiser = torch.optim.AdamW(model.train().parameters(), lr=1e-4)

    def step(now: Now = time.perf_counter) -> float:
        start = now()
        model(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return now() - start

    return step


def decoding(model: Any, n: int) -> Turn:
    """Seconds of NEW tokens after n, token by token; every turn goes on from the same cache."""
    with torch.no_grad():
        read = model.eval()(input_ids=prompt(model, 1, n), use_cache=True)
    first = read.logits[:, -1:].argmax(-1)

    @torch.no_grad()
    def run(now: Now = time.perf_counter) -> float:
        cache, token = copy.deepcopy(read.past_key_values), first
        start = now()
        for _ in range(NEW):
            out = model(input_ids=token, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
        return now() - start

    return run


class TokenTimes:
    """A streamer of generate() that notes when tokens come: the prompt, then one at a time."""

    def __init__(self, now: Now) -> None:
        self.now, self.times = now, list[float]()

    def put(self, value: Tensor) -> None:
        self.times.append(self.now())

    def end(self) -> None:
        pass

    @property
    def seconds(self) -> float:
        """From the first new token to the last."""
        return self.times[-1] - self.times[1]


def generating(model: Any, n: int) -> Turn:
    """Seconds of NEW tokens after the first that follows n."""
    ids = prompt(model, 1, n)
    model.eval().generation_config.eos_token_id = None

    def run(now: Now = time.perf_counter) -> float:
        times = TokenTimes(now)
        model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW + 1, do_sample=False,
            streamer=times, pad_token_id=0,
        )  # fmt: skip
        return times.seconds

    return run


JOBS: dict[str, Callable[[Any, int], Turn]] = {
    TRAINING: training, DECODE: decoding, GENERATE: generating,
}  # fmt: skip


def tokens_per_call(n: int, work: str) -> int:
    return max(1, TOKENS // n) * n if work == TRAINING else NEW


def _model(
    label: str, attention: str | None = "ascender", position: str = "rope",
    baseline: str = "model_vanilla", native: bool = True, **options: Any,
) -> Candidate:  # fmt: skip
    make = partial(ModelJob, attention=attention, position=position, options=options, native=native)
    candidate = Candidate(label, make, None, baseline, tuple(JOBS))
    return candidate if native else replace(candidate, refuses=on_cpus)


SHARED: dict[str, Any] = {"geometry": "shared", "d_z": 15}  # d_z + 1 columns of cohesion: 16
NORM = {**SHARED, "qk_norm": True}
FLOCK = {**SHARED, "scope": "flock", "far": FAR, "window": NEAR}
MODELS: dict[str, Candidate] = {
    "model_vanilla": _model("vanilla", "vanilla"),
    "model_llama": _model("transformers' Llama, SDPA", None),
    "model_per_head": _model("ascender, per head", d_z=15),
    "model_per_head_torch": _model("… without native kernels", native=False, d_z=15),
    "model_shared": _model("ascender, shared", **SHARED),
    "model_shared_norm": _model("ascender, shared, QK-norm", **NORM),
    "model_window": _model(f"… and w = {WINDOW}", **NORM, window=WINDOW),
    "model_flock": _model(f"ascender, flock, {FAR} far keys, w = {NEAR}, shared", **FLOCK),
    "model_flock_norm": _model("… and QK-norm", **FLOCK, qk_norm=True),
    "model_vanilla_none": _model(
        "vanilla, no rotary positions", "vanilla", "none", "model_vanilla_none"
    ),
    "model_shared_norm_none": _model(
        "ascender, shared, QK-norm, no rotary positions", position="none",
        baseline="model_vanilla_none", **NORM,
    ),
}  # fmt: skip
