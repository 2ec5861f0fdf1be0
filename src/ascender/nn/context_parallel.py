"""Context parallelism: a causal sequence in equal blocks over processes, in flock scope.

Process r of P has tokens r·n … (r + 1)·n − 1. Everything but attention is local. A layer exchanges

    index      h^k of every token, to all later processes             d_a numbers per token
    requests   the keys on other processes that a block's flocks have   one integer per key
    rows       k and v of these keys; for the rules also the keys before rotation, and z

and then attends over lists, as on one process. A row is sent to a process once, however many of its
queries have the key in their flock. In the visible phase the rows of all tokens are sent, as the
index is. In the backward pass gradients go back the same way.

Law: outputs, losses and gradients (summed over the processes) are those of one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from ascender.core.combine import repeat_kv
from ascender.core.flock import Flock
from ascender.core.visibility import Visibility
from ascender.nn.call import Call, Unsupported
from ascender.nn.module import AscenderAttention
from ascender.nn.slot import ways


@dataclass
class Traffic:
    """Bytes that a layer of this process received in forward passes. A backward pass sends as many
    back for index and rows that have a gradient."""

    index: int = 0
    requests: int = 0
    rows: int = 0


def context_parallel(model: nn.Module, group: dist.ProcessGroup | None = None) -> nn.Module:
    """The model, in place, for blocks of a sequence: every AscenderAttention becomes a
    ContextParallelAttention. Where positions are added to the tokens, the caller gives
    position_ids counted from the start of the whole sequence."""
    layers = [m for m in model.modules() if isinstance(m, AscenderAttention)]
    if not layers:
        raise ValueError("model has no AscenderAttention; expected one with scope='flock'")
    for layer in layers:
        check_layer(layer)
    for layer in layers:
        layer.__class__ = ContextParallelAttention
        vars(layer).update(group=group, traffic=Traffic())
    return model


def own_block(
    t: Shaped[Tensor, "..."], axis: int = 1, group: dist.ProcessGroup | None = None
) -> Shaped[Tensor, "..."]:
    """This process's block of a tensor of the whole sequence."""
    rank, processes = dist.get_rank(group), dist.get_world_size(group)
    n, rest = divmod(t.shape[axis], processes)
    if rest:
        raise ValueError(
            f"{t.shape[axis]} tokens; expected a multiple of {processes}: one block per process"
        )
    return t.narrow(axis, rank * n, n)


def sum_gradients(model: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Sum every parameter's gradient over the processes. A loss that is a mean over tokens must be
    divided by the number of all tokens, not of a block."""
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)


def check_layer(layer: AscenderAttention) -> None:
    """Refuse a layer whose attention needs more than index and rows of other blocks."""
    if layer.scope != "flock":
        raise Unsupported(f"scope = {layer.scope!r} in context parallelism; expected 'flock'")
    if not isinstance(layer.neighbours, str) or layer.neighbours != "semantic":
        raise Unsupported(
            f"neighbours = {layer.neighbours!r} in context parallelism: only h is sent to rank "
            "keys; expected 'semantic'"
        )
    on_scores = [way for way in ways(type(layer.position)) if way not in ("embed", "rotate")]
    if on_scores:
        raise Unsupported(
            f"position = {layer.position.name!r} in context parallelism, which acts on scores; "
            "expected rope, none, or a position that is added to the tokens"
        )
    if layer.normalizer.name != "softmax":
        raise Unsupported(
            f"normalizer = {layer.normalizer.name!r} in context parallelism; expected softmax"
        )


class ContextParallelAttention(AscenderAttention):
    """AscenderAttention of one block of a causal sequence; other processes have the other blocks.
    `context_parallel` makes it. `traffic`: the bytes received so far."""

    group: dist.ProcessGroup | None = None
    traffic: Traffic

    def call(self, x: Tensor, context: Tensor | None = None, **inputs: Any) -> Call:
        expected = {"causal": True, "mask": None, "other": None, "neighbours": None, "cache": None}
        for name, want in expected.items():
            got = inputs.get(name, want)
            if got is not want:
                shown = type(got).__name__ if want is None else got
                raise Unsupported(f"{name} = {shown} in context parallelism; expected {want}")
        if context is not None:
            raise Unsupported(
                f"context = {type(context).__name__} in context parallelism; expected None "
                "(self-attention)"
            )
        if self.training and self.dropout:
            raise Unsupported(f"dropout = {self.dropout} in context parallelism; expected 0")
        if self.asked():
            raise Unsupported("auxiliary losses in context parallelism; expected no collect(…)")
        if inputs.get("positions") is None:
            first = dist.get_rank(self.group) * x.shape[1]
            inputs["positions"] = torch.arange(first, first + x.shape[1], device=x.device)
        return super().call(x, context, **inputs)

    def flock(self, call: Call) -> Flock:
        """The queries of this block against the keys that they need, of all blocks so far."""
        sent = self._streams(call)
        packed = torch.cat([t.permute(2, 0, 1, 3).flatten(1) for t in sent.values()], -1)
        n, rank = packed.shape[0], dist.get_rank(self.group)
        self._check_blocks(call.q)
        h_k = self._all_h(call.more["h_k"])
        own = torch.arange(rank * n, (rank + 1) * n, device=packed.device)
        far = None
        if self.flock_only:
            far, remote = self._members(call, h_k)
            received = self._requested(packed, remote)
            held = torch.cat([remote, own])
        else:
            received = self._from_earlier(packed)
            self.traffic.rows += received.nbytes
            held = torch.arange((rank + 1) * n, device=packed.device)
        keys = torch.cat([received, packed])
        widths = [t.shape[1] * t.shape[3] * t.shape[0] for t in sent.values()]
        every = {
            name: part.view(len(held), t.shape[0], t.shape[1], -1).permute(1, 2, 0, 3)
            for (name, t), part in zip(sent.items(), keys.split(widths, -1), strict=True)
        }
        every["h_k"] = h_k[:, :, held]
        call = _with_keys(call, Visibility(own, held, causal=True), every)
        flock = super().flock(call)
        if far is None:
            return flock
        places = torch.searchsorted(held, far.clamp_min(0)).masked_fill(far < 0, -1)
        return replace(flock, derived={"far": places})

    def _streams(self, call: Call) -> dict[str, Tensor]:
        """The tensors that make up the row of a key, (B, heads, n, width) each."""
        rules = self.rules()
        sent = {"k": call.k, "v": call.v}
        if rules.active("align") and call.bare is not None:
            sent["bare"] = call.bare
        if rules.active("sep") or rules.active("coh"):
            sent["z_k"] = call.more["z_k"]
        return sent

    def _check_blocks(self, q: Tensor) -> None:
        shape = torch.tensor([q.shape[0], q.shape[2]], device=q.device)
        gathered = [torch.empty_like(shape) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(gathered, shape, group=self.group)
        shapes = [tuple(block.tolist()) for block in gathered]
        if len(set(shapes)) > 1:
            raise ValueError(
                f"blocks (batch, tokens) = {shapes}; expected the same on every process"
            )

    def _all_h(self, h: Float[Tensor, "B A n a"]) -> Float[Tensor, "B A M a"]:
        """h^k of this block and all before it; sent once where heads share it."""
        heads = h.shape[1]
        h = h[:, :: max(1, heads // int(self.affinity_heads or 1))]
        rows = h.permute(2, 0, 1, 3).flatten(1)
        received = self._from_earlier(rows)
        self.traffic.index += received.nbytes
        every = torch.cat([received, rows]).unflatten(1, (h.shape[0], h.shape[1], -1))
        return repeat_kv(every.permute(1, 2, 0, 3), heads)

    def _members(self, call: Call, h_k: Tensor) -> tuple[Int[Tensor, "B #H N m"], Tensor]:
        """(the far keys of every query as positions, the positions in any flock that earlier
        processes have, sorted). Only h of the keys is read."""
        n, M = call.q.shape[2], h_k.shape[2]
        vis = Visibility.of(n, M, device=h_k.device, causal=True)
        B, d, e = call.k.shape[0], call.k.shape[3], call.v.shape[3]
        nothing = call.k.new_zeros(())
        stand_in = {
            "k": nothing.expand(B, self.heads, M, d),
            "v": nothing.expand(B, self.heads, M, e),
        }
        flock = super().flock(_with_keys(call, vis, {**stand_in, "h_k": h_k}))
        assert flock.scope is not None
        members = flock.scope.lists(flock.far).unique()
        return flock.far, members[(members >= 0) & (members < M - n)]

    def _from_earlier(self, rows: Shaped[Tensor, "n w"]) -> Shaped[Tensor, "r w"]:
        """The rows of all earlier processes, in order; sends the own rows to all later ones."""
        n, rank, processes = len(rows), dist.get_rank(self.group), dist.get_world_size(self.group)
        later = [n if r > rank else 0 for r in range(processes)]
        earlier = [n if r < rank else 0 for r in range(processes)]
        copies = rows.repeat(processes - 1 - rank, 1)
        return _AllToAll.apply(copies, later, earlier, self.group)

    def _requested(
        self, rows: Float[Tensor, "n w"], remote: Int[Tensor, "r"]
    ) -> Float[Tensor, "r w"]:
        """The rows at these positions, from the earlier processes that have them."""
        n, processes = len(rows), dist.get_world_size(self.group)
        receive = torch.bincount(remote // n, minlength=processes)
        send = torch.empty_like(receive)
        dist.all_to_all_single(send, receive, group=self.group)
        to, back = send.tolist(), receive.tolist()
        wanted = all_to_all(remote, back, to, self.group) - dist.get_rank(self.group) * n
        received = _AllToAll.apply(rows.index_select(0, wanted), to, back, self.group)
        self.traffic.requests += wanted.nbytes
        self.traffic.rows += received.nbytes
        return received

    def parts(self, call: Call) -> Any:
        raise Unsupported("return_parts = True in context parallelism; expected False")

    def neighbours_of(self, call: Call) -> Any:
        raise Unsupported("return_neighbours = True in context parallelism; expected False")

    def contain(self, call: Call, parts: bool) -> Any:
        raise ValueError(
            "a token is not finite, or too large: context parallelism does not contain it; "
            "expected finite tokens"
        )


def _with_keys(call: Call, vis: Visibility, keys: dict[str, Tensor]) -> Call:
    """The call against other keys; z is 0 where no rule reads it."""
    z = call.more["z_k"]
    z_k = keys.get("z_k", z.new_zeros(()).expand(*z.shape[:2], vis.M, z.shape[3]))
    more = {**call.more, "z_k": z_k, "h_k": keys["h_k"]}
    return replace(call, k=keys["k"], v=keys["v"], bare=keys.get("bare"), vis=vis, more=more)


def all_to_all(
    rows: Shaped[Tensor, "s *w"], send: Sequence[int], receive: Sequence[int],
    group: dist.ProcessGroup | None,
) -> Shaped[Tensor, "r *w"]:  # fmt: skip
    """send[r] rows to process r, receive[r] from it, in order of the processes."""
    out = rows.new_empty(sum(receive), *rows.shape[1:])
    dist.all_to_all_single(out, rows.contiguous(), list(receive), list(send), group=group)
    return out


class _AllToAll(torch.autograd.Function):
    """all_to_all; the gradient of a row goes back to where it came from."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, send: list[int], receive: list[int], group: Any) -> Tensor:
        ctx.way = send, receive, group
        return all_to_all(rows, send, receive, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        send, receive, group = ctx.way
        return all_to_all(grad, receive, send, group), None, None, None
