"""distil_index: train an index to find the keys that a frozen model's attention uses.

    ascender.retrofit(model, scope="flock", far=32, window=8, n_global=1)
    report = ascender.distil_index(model, texts, tokenizer=tokenizer)
    model.generate(…)                                # attends to flocks

Every step is a dense pass of the model over blocks of text; each layer's index learns by the index
loss (core/index_loss.py) from that layer's own attention, at the length at which it will be used.
Nothing but P_q, P_k and the bias by distance changes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ascender.common.validate import check_int, check_positive
from ascender.core.flock import Flock
from ascender.core.index_loss import head_weights
from ascender.core.losses import collect
from ascender.core.neighbours import best
from ascender.core.rules import by_head
from ascender.core.schedule import LossWeights, set_visible_phase
from ascender.hf.retrofit.index_start import start_from_tokens
from ascender.hf.retrofit.install import check_model, record, swarms
from ascender.hf.retrofit.rule_adapter import RuleAdapter

LENGTH, HELD_OUT = 512, 8  # at most: tokens of a block, blocks that are not trained on
ROWS = 4  # an index starts from ROWS · width tokens
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class LayerRecall:
    """Share of the attention mass (mean over heads) inside F(i), on held-out text, over the rows
    that see more than their flock. `start`: far keys chosen by the index before training,
    `trained`: after it, `oracle`: by the true attention weights (an upper bound)."""

    layer: int
    start: float
    trained: float
    oracle: float


@dataclass(frozen=True)
class IndexReport:
    """The settings of distil_index, the loss of every step, and the recall of every layer."""

    far: int | Sequence[int]
    window: int
    n_global: int
    length: int
    steps: int
    blocks: int
    loss: list[float]
    seconds: float
    layers: list[LayerRecall] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """As a dict for JSON."""
        return asdict(self)


def distil_index(
    model: nn.Module, texts: str | Iterable[Any] | Tensor, *, tokenizer: Any = None,
    length: int | None = None, steps: int = 300, batch: int = 8, rate: float = 1e-3,
    bias_rate: float = 3e-2, seed: int = 0, progress: Progress | None = None,
) -> IndexReport:  # fmt: skip
    """Train the index of a model that was retrofitted with scope="flock".

    texts       texts, with their tokenizer; or token ids (blocks, length)
    length      tokens of a block: the length at which the model will be used; None: 512, or the
                model's longest
    rate        learning rate of P_q and P_k
    bias_rate   learning rate of the bias by distance
    progress    called with (step, steps, loss) after every step

    The index starts from the model's own W_Q and W_K; an earlier training of it is lost.
    """
    indexed = indexed_layers(model)
    for name, value in {"steps": steps, "batch": batch}.items():
        check_int(name, value, 1)
    for name, number in {"rate": rate, "bias_rate": bias_rate}.items():
        check_positive(name, number)
    blocks = text_blocks(texts, tokenizer, length or _longest(model))
    for swarm in indexed:
        _check_length(swarm, blocks.shape[1])
    blocks = blocks.to(next(model.parameters()).device)
    n_test = max(1, min(HELD_OUT, len(blocks) // 10))
    learn, test = blocks[:-n_test], blocks[-n_test:]
    begun, was_training = time.perf_counter(), model.training
    model.eval()
    try:
        with dense_phase(model):
            _start(model, learn[:batch])
            before = recall(model, test)
            losses = _train(model, indexed, learn, steps, batch, (rate, bias_rate), seed, progress)
            after, oracle = recall(model, test), recall(model, test, oracle=True)
    finally:
        model.train(was_training)
    first = indexed[0]
    rows = zip(before, after, oracle, strict=True)
    return IndexReport(
        first.far, first.window, first.n_global, blocks.shape[1], steps, len(learn), losses,
        round(time.perf_counter() - begun, 1),
        [LayerRecall(i, *(round(x, 4) for x in row)) for i, row in enumerate(rows)],
    )  # fmt: skip


def _check_length(swarm: RuleAdapter, length: int) -> None:
    """Some row must see more keys than its flock holds: else there is nothing to choose."""
    far = min(swarm.far) if isinstance(swarm.far, Sequence) else swarm.far
    held = far + swarm.window + swarm.n_global + 1
    if length <= held:
        raise ValueError(
            f"length = {length}, and a flock of far = {far}, window = {swarm.window} and n_global "
            f"= {swarm.n_global} holds every key of such a block; expected at least {held + 1}"
        )


def indexed_layers(model: nn.Module) -> list[RuleAdapter]:
    """The adapters that have an index; an error where there are none."""
    check_model(model)
    done = record(model)
    if done is None:
        raise ValueError(
            "the model has not been retrofitted; expected retrofit(model, scope='flock') first"
        )
    adapters = [swarm for swarm in swarms(model).values() if swarm.has_index]
    if not adapters:
        rules = done.rules
        raise ValueError(
            f"the model was retrofitted with scope={rules['scope']!r}, affinity="
            f"{rules['affinity']!r}, neighbours={rules['neighbours']!r}: no index; expected "
            "scope='flock', affinity='query-key' and neighbours='semantic'"
        )
    return adapters


def text_blocks(texts: Any, tokenizer: Any, length: int) -> Tensor:
    """Texts joined and cut into blocks of `length` tokens; a shorter rest is left out."""
    check_int("length", length, 2)
    if isinstance(texts, Tensor):
        if texts.ndim != 2 or texts.is_floating_point() or len(texts) < 2:
            raise ValueError(
                f"texts is a tensor {tuple(texts.shape)} of {texts.dtype}; expected token ids "
                "(blocks, length) with at least 2 blocks"
            )
        return texts
    listed = [texts] if isinstance(texts, str) else list(texts)
    for text in listed:
        if not isinstance(text, str):
            raise TypeError(f"texts has {text!r}; expected strings, or a tensor of token ids")
    if not any(text.strip() for text in listed):
        raise ValueError(f"{len(listed)} texts, all empty; expected some text")
    if tokenizer is None:
        raise ValueError(
            "tokenizer = None; expected the model's tokenizer, or token ids (blocks, length)"
        )
    ids = [i for text in listed for i in tokenizer(text).input_ids]
    if len(ids) < 2 * length:
        raise ValueError(
            f"the texts have {len(ids)} tokens; expected at least {2 * length}: 2 blocks of "
            f"length = {length}, one to train on and one to test"
        )
    return torch.tensor(ids[: len(ids) // length * length]).view(-1, length)


def _longest(model: nn.Module) -> int:
    config: Any = model.config
    return min(LENGTH, getattr(config, "max_position_embeddings", None) or LENGTH)


@contextmanager
def dense_phase(model: nn.Module) -> Iterator[None]:
    """Inside, the model attends to everything visible."""
    set_visible_phase(model, True)
    try:
        yield
    finally:
        set_visible_phase(model, False)


def _run(model: nn.Module, ids: Tensor) -> None:
    """A pass of the model without its language model head."""
    base: Any = getattr(model, "base_model", model)
    base(input_ids=ids, use_cache=False)


@torch.no_grad()
def _start(model: nn.Module, ids: Tensor) -> None:
    """Set P_q and P_k of every layer from the tokens that reach it."""
    inputs: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, args: Any, kwargs: Any) -> None:
        names = {**dict(zip(module.swarm.names, args, strict=False)), **kwargs}  # type: ignore[union-attr,arg-type]
        inputs[module] = names[module.swarm.names[0]].detach()  # type: ignore[union-attr,index]

    modules = [m for m in model.modules() if _is_indexed(m)]
    handles = [m.register_forward_pre_hook(keep, with_kwargs=True) for m in modules]
    try:
        _run(model, ids)
    finally:
        for handle in handles:
            handle.remove()
    for module, x in inputs.items():
        flat = x.flatten(0, 1)
        step = max(1, len(flat) // (ROWS * flat.shape[1]))
        start_from_tokens(module.swarm, module, flat[::step][None])  # type: ignore[arg-type]


def _is_indexed(module: nn.Module) -> bool:
    swarm = getattr(module, "swarm", None)
    return isinstance(swarm, RuleAdapter) and swarm.has_index


def _train(
    model: nn.Module, indexed: list[RuleAdapter], blocks: Tensor, steps: int, batch: int,
    rates: tuple[float, float], seed: int, progress: Progress | None,
) -> list[float]:  # fmt: skip
    """Adam on the index loss, cosine decay to 0; returns the loss of every step."""
    biases = [s.distance_bias for s in indexed if s.distance_bias is not None]
    maps = [p for s in indexed for m in (s.P, s.P_k) if m is not None for p in m.parameters()]
    learned = {p: p.requires_grad for p in model.parameters()}
    model.requires_grad_(False)
    for p in (*maps, *biases):
        p.requires_grad_(True)
    groups = [(maps, rates[0]), *([(biases, rates[1])] if biases else [])]
    adam = torch.optim.Adam([{"params": params, "lr": lr} for params, lr in groups])
    draw = torch.Generator().manual_seed(seed)
    losses = []
    try:
        for step in range(steps):
            for group, (_, lr) in zip(adam.param_groups, groups, strict=True):
                group["lr"] = lr * 0.5 * (1 + math.cos(math.pi * step / steps))
            which = torch.randint(len(blocks), (min(batch, len(blocks)),), generator=draw)
            with collect(model, LossWeights(index=1.0)) as collector:
                _run(model, blocks[which])
            loss = collector.total()
            adam.zero_grad()
            loss.backward()
            adam.step()
            losses.append(round(float(loss.detach()), 5))
            if progress is not None:
                progress(step + 1, steps, losses[-1])
    finally:
        for p, learns in learned.items():
            p.requires_grad_(learns)
            p.grad = None
    return losses


def recall(model: nn.Module, blocks: Tensor, oracle: bool = False) -> list[float]:
    """By layer: the share of the attention mass inside F(i), where V(i) is larger than F(i)."""
    sums: dict[RuleAdapter, list[Tensor]] = {}

    def hook(swarm: RuleAdapter, flock: Flock) -> Flock:
        sums.setdefault(swarm, []).append(_mass(swarm, flock, oracle))
        return flock

    with hooked(model, hook), torch.no_grad(), dense_phase(model):
        for ids in blocks.split(4):
            _run(model, ids)
    totals = [torch.stack(parts).sum(0) for parts in sums.values()]
    return [float(mass / rows.clamp_min(1)) for mass, rows in totals]


@contextmanager
def hooked(model: nn.Module, hook: Callable[[RuleAdapter, Flock], Flock]) -> Iterator[None]:
    """Inside, every call of an indexed layer goes through `hook`."""
    layers = indexed_layers(model)
    for swarm in layers:
        swarm.hook = hook
    try:
        yield
    finally:
        for swarm in layers:
            swarm.hook = None


def _mass(swarm: RuleAdapter, flock: Flock, oracle: bool) -> Tensor:
    """(sum of the mass inside F(i), rows) over rows that see more than their flock."""
    flock = flock.repeat_kv()
    scope = swarm.flock_scope(flock.vis)
    weights = head_weights(flock).mean(1, keepdim=True)
    far = best_far(swarm, flock, weights) if oracle else replace(flock, scope=scope).far
    inside = scope.mask(far)
    more = flock.vis.visible.sum(-1) > inside.sum(-1)
    mass = (weights * inside).sum(-1)
    more = more.expand_as(mass)
    return torch.stack([mass[more].sum(), more.sum().to(mass.dtype)])


def best_far(swarm: RuleAdapter, flock: Flock, scores: Tensor) -> Tensor:
    """The far keys by any scores (B, h, N, M)."""
    outside = swarm.flock_scope(flock.vis).outside.flockmates
    return best(scores.masked_fill(~outside, -torch.inf), by_head("far", swarm.far))
