"""The models: pre-norm blocks around the slot, and a head for every job.

    x = embed(tokens) + W_read vectors         either or both; absolute positions are added here
    x = x + attention(norm(x))                 any attention, position, normaliser, by name
    x = x + W_down( silu(W_gate x) · W_up x )  as Llama has it

With attention="vanilla" and position="rope" this is Llama, weight for weight (a test copies
them over), so a baseline is the same model with one word changed.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from ascender.common.validate import nearest
from ascender.core.combine import Parts
from ascender.core.normalizers import Normalizer
from ascender.core.schedule import get_lam, set_lam
from ascender.core.scope import FarKeys
from ascender.hf.cache import AscenderCache
from ascender.hf.configuration import AscenderConfig
from ascender.kernels import gpu
from ascender.nn.cache import CrossKV
from ascender.nn.module import AscenderAttention
from ascender.nn.positions import Position
from ascender.nn.slot import Attention

# What tokenizers, trainers and generate() hand to any model, and this one has no use for.
UNUSED = ("token_type_ids", "cache_position", "num_items_in_batch", "return_dict", "is_causal")


@dataclass
class AscenderOutput(ModelOutput):
    """What a model gives; `parts` are the named terms of every layer, on demand."""

    loss: Any = None
    logits: Any = None
    last_hidden_state: Any = None
    past_key_values: AscenderCache | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None
    parts: tuple[Parts, ...] | None = None
    cross_parts: tuple[Parts, ...] | None = None


class SwiGLU(nn.Module):
    """W_down( silu(W_gate x) · W_up x )."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        self.W_gate = nn.Linear(dim, inner, bias=False)
        self.W_up = nn.Linear(dim, inner, bias=False)
        self.W_down = nn.Linear(inner, dim, bias=False)

    def forward(self, x: Float[Tensor, "B N dim"]) -> Float[Tensor, "B N dim"]:
        return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))


class Block(GradientCheckpointingLayer):
    """x + attention(norm(x)), in a decoder x + attention(norm(x), encoder's states), x + mlp."""

    def __init__(
        self, config: AscenderConfig, where: Position | None, layer: int, cross: bool = False
    ) -> None:
        super().__init__()
        dim, eps = config.hidden_size, config.norm_eps
        self.attention_norm = nn.RMSNorm(dim, eps=eps)
        self.attention = config.make_attention(where, layer=layer)
        if where is not None:
            lend(self.attention, where)
        self.cross_norm = nn.RMSNorm(dim, eps=eps) if cross else None
        self.cross = None
        if cross:
            layer += config.num_decoder_layers or 0
            self.cross = config.make_attention(None, cross=True, layer=layer)
        self.mlp_norm = nn.RMSNorm(dim, eps=eps)
        assert config.intermediate_size is not None  # the config fills it in
        self.mlp = SwiGLU(dim, config.intermediate_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, context: Tensor | None = None, *, context_mask: Tensor | None = None,
        memory: CrossKV | None = None, parts: bool = False, near: bool = False, **how: Any,
    ) -> tuple[Tensor, dict[str, Any]]:  # fmt: skip
        """(x, what was wanted of it: `parts` and `cross_parts`, `near`). What has a gradient comes
        by position: reentrant checkpointing knows no other."""
        asked = {"return_parts": parts, "return_neighbours": near}
        y = self.attention(self.attention_norm(x), **how, **asked)
        y, *more = y if parts or near else (y,)
        extra = dict(zip(["parts"] * parts + ["near"] * near, more, strict=True))
        x = x + self.dropout(y)
        if self.cross is not None and self.cross_norm is not None and context is not None:
            y = self.cross(
                self.cross_norm(x), context, mask=context_mask, cache=memory, return_parts=parts
            )
            y, extra["cross_parts"] = y if parts else (y, None)
            x = x + self.dropout(y)
        return x + self.dropout(self.mlp(self.mlp_norm(x))), extra


def lend(attention: Attention, where: Position) -> None:
    """The stack owns its position and saves it once; a layer only has the use of it."""
    del attention.position
    attention.__dict__["position"] = where


class AscenderPreTrainedModel(PreTrainedModel):
    config_class = AscenderConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]
    # The slot has its own attention, not transformers' interface; a pass is one graph for
    # torch.compile, a cache that grows is not.
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = False
    _supports_attention_backend = _can_compile_fullgraph = False

    @property
    def smoothing(self) -> float:
        """Of the labels: while training."""
        return self.config.label_smoothing if self.training else 0.0

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        std = self.config.initializer_range
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.RMSNorm):
            nn.init.ones_(module.weight)
        elif isinstance(module, Attention | Position | Normalizer):
            own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            loaded = all(getattr(t, "_is_hf_initialized", False) for t in own)
            if callable(reset := getattr(module, "reset_parameters", None)) and not loaded:
                reset()

    def save_pretrained(self, *where: Any, **options: Any) -> None:
        """With the λ that the rules have now: they are no weights, so the config has them."""
        lam = get_lam(self)
        self.config.lam = lam if any(value != 1 for value in lam.values()) else None
        super().save_pretrained(*where, **options)


class AscenderModel(AscenderPreTrainedModel):
    """Tokens in, states out: an encoder, or a decoder where config.is_decoder."""

    def __init__(self, config: AscenderConfig, decoder: bool | None = None) -> None:
        super().__init__(config)
        self.causal = config.is_decoder if decoder is None else decoder
        cross = config.is_encoder_decoder and self.causal
        layers = (config.num_decoder_layers if cross else None) or config.num_hidden_layers
        self.position = config.make_position()
        self.absolute = type(self.position).embed is not Position.embed
        where = None if self.absolute else self.position
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.read = (
            nn.Linear(config.vector_size, config.hidden_size) if config.vector_size else None
        )
        first = config.num_hidden_layers if cross else 0  # an encoder's layers come before
        self.layers = nn.ModuleList(Block(config, where, first + i, cross) for i in range(layers))
        for i, attention in enumerate(self.attentions):
            if isinstance(attention, AscenderAttention):
                attention.far_from_below = i % config.share_neighbours > 0
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.norm_eps)
        self.gradient_checkpointing = False
        set_lam(self, config.lam or {})
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.embed_tokens = value

    @property
    def attentions(self) -> list[Attention]:
        """Of every layer."""
        return [cast(Block, block).attention for block in self.layers]

    def new_cache(self) -> AscenderCache:
        """An empty one for generation."""
        return AscenderCache(self.attentions)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B N"] | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Int[Tensor, "..."] | None = None,
        past_key_values: AscenderCache | None = None,
        inputs_embeds: Float[Tensor, "B N dim"] | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        output_parts: bool = False,
        neighbours: Int[Tensor, "..."] | None = None,
        vectors: Float[Tensor, "B N w"] | None = None,
        encoder_hidden_states: Float[Tensor, "B M dim"] | None = None,
        encoder_attention_mask: Tensor | None = None,
        **ignored: Any,
    ) -> AscenderOutput:
        """`neighbours`: index lists (a grid, a graph) that every layer goes by; `output_parts`:
        the named terms of every score; `vectors`: what is no word (pixels, features of nodes)."""
        refuse_near_misses(ignored, type(self))
        x = self._entered(input_ids, inputs_embeds, vectors)
        caches = self._caches(past_key_values, use_cache)
        cached = 0 if caches is None else caches.get_seq_length()
        check_mask("attention_mask", attention_mask, x, cached)
        mask = self._real(attention_mask)
        if self.absolute:
            if position_ids is None:
                position_ids = _places(mask, cached, x)
            x = self.position.embed(x, position_ids)
        check_mask("encoder_attention_mask", encoder_attention_mask, encoder_hidden_states)
        how: dict[str, Any] = {
            "mask": mask, "positions": None if self.absolute else _row(position_ids),
            "context_mask": self._real(encoder_attention_mask), "causal": self.causal,
        }  # fmt: skip
        config = self.config
        weights = config.output_attentions if output_attentions is None else output_attentions
        if output_hidden_states is None:
            output_hidden_states = config.output_hidden_states
        asked = bool(output_parts or weights)
        every, extras = self._stack(x, encoder_hidden_states, how, caches, neighbours, asked)
        own = tuple(extra["parts"] for extra in extras if asked)
        cross = tuple(extra["cross_parts"] for extra in extras if extra.get("cross_parts")) or None
        return AscenderOutput(
            last_hidden_state=every[-1], past_key_values=caches,
            hidden_states=tuple(every) if output_hidden_states else None,
            attentions=tuple(p.weights for p in own) if weights else None,
            cross_attentions=tuple(p.weights for p in cross) if weights and cross else None,
            parts=own if output_parts else None, cross_parts=cross if output_parts else None,
        )  # fmt: skip

    def _entered(
        self, ids: Tensor | None, embeds: Tensor | None, vectors: Tensor | None
    ) -> Float[Tensor, "B N dim"]:
        """What the tokens, their embeddings or the vectors are in the stack."""
        if (ids is not None) + (embeds is not None) != 1 and vectors is None:
            raise ValueError("expected exactly one of input_ids and inputs_embeds, or vectors")
        x = self.embed_tokens(ids) if ids is not None else embeds
        if vectors is None:
            return cast(Tensor, x)
        if self.read is None or vectors.shape[-1] != self.config.vector_size:
            raise ValueError(
                f"vectors of {vectors.shape[-1]}; expected config.vector_size = "
                f"{self.config.vector_size}"
            )
        projected = self.read(vectors)
        return projected if x is None else x + projected

    def _caches(self, given: AscenderCache | None, wanted: bool | None) -> AscenderCache | None:
        """The one given, or a new one where one is wanted; by default where no gradient is."""
        if given is not None and not isinstance(given, AscenderCache):
            raise TypeError(
                f"past_key_values is {type(given).__name__}; expected AscenderCache (new_cache())"
            )
        if self.training and self.gradient_checkpointing:
            return None
        if wanted is None:
            able = all(attention.decodes for attention in self.attentions)
            wanted = self.config.use_cache and able and not torch.is_grad_enabled()
        return self.new_cache() if given is None and wanted and self.causal else given

    def _real(self, mask: Tensor | None) -> Bool[Tensor, "..."] | None:
        """transformers' mask (1 or True = real) as ours; None where all are. On a GPU nobody looks,
        for that would wait."""
        if mask is None:
            return None
        if mask.ndim != 2:
            if mask.dtype == torch.bool:
                return mask
            raise ValueError(
                f"attention_mask is {mask.dtype} {tuple(mask.shape)}; expected (B, N) with 1 for "
                "real tokens, or bool that broadcasts to (B, H, N, M)"
            )
        real = mask.to(torch.bool)
        if torch.compiler.is_compiling():
            return real
        # Globals and BigBird's blocks are counted from the first token.
        counted = any(
            a.n_global > 0 or getattr(a, "flock_globals", 0) > 0 or hasattr(a, "plan")
            for a in self.attentions
        )
        if gpu.on_gpu(real) and not counted:
            return real
        if bool(real.all()):
            return None
        if counted and not bool(real[:, 0].all()):
            raise ValueError(
                f"padding on the left with {self.config.attention} attention, which counts global "
                "tokens or blocks from the first; expected padding on the right, or one sequence "
                "at a time"
            )
        return real

    def _stack(
        self, x: Tensor, context: Tensor | None, how: dict[str, Any],
        caches: AscenderCache | None, neighbours: Tensor | None, parts: bool,
    ) -> tuple[list[Tensor], list[dict[str, Any]]]:  # fmt: skip
        """(the states before the first layer and after every one, what each layer was asked for)"""
        states, extras = [x], []
        near: Tensor | FarKeys | None = neighbours
        share = self.config.share_neighbours
        for i, block in enumerate(self.layers):
            if neighbours is None and i % share == 0:
                near = None
            if caches is not None:
                how = {**how, "cache": caches[i]}
                how["memory"] = None if context is None else caches.cross[i]
            wanted = {"parts": parts, "near": share > 1 and near is None}
            x, more = block(x, context, **how, neighbours=near, **wanted)
            near = more.get("near", near)
            states.append(x)
            extras.append(more)
        states[-1] = self.norm(x)
        return states, extras


def check_mask(name: str, mask: Tensor | None, x: Tensor | None, cached: int = 0) -> None:
    """A mask of padding is as long as the tokens, or as those and the cached ones."""
    if mask is None or x is None or mask.ndim != 2:
        return
    B, N = x.shape[:2]
    if mask.shape[0] != B or mask.shape[1] not in (N, cached + N):
        also = f", or {(B, cached + N)} with the {cached} tokens in the cache" if cached else ""
        raise ValueError(f"{name} has shape {tuple(mask.shape)}; expected {(B, N)}{also}")


def refuse_near_misses(inputs: dict[str, Any], model: type[nn.Module]) -> None:
    """attention_maks=… would let padding in without a word."""
    unknown = [name for name in inputs if name not in UNUSED]
    if not unknown:
        return
    known = [name for name in inspect.signature(model.forward).parameters if name != "ignored"]
    for name in unknown:
        if near := nearest(name, known):
            raise TypeError(f"unknown input {name!r}{near}")


def _places(mask: Tensor | None, cached: int, x: Tensor) -> Int[Tensor, "..."]:
    """Where tokens stand: padding on the left does not count."""
    n = x.shape[1]
    if mask is None or mask.ndim != 2 or mask.shape[1] != cached + n:
        return torch.arange(cached, cached + n, device=x.device)
    return (mask.long().cumsum(-1) - 1).clamp_min(0)[:, -n:]


def _row(position_ids: Tensor | None) -> Tensor | None:
    """Positions (1, N) are (N,): the same for all."""
    if position_ids is not None and position_ids.ndim == 2 and position_ids.shape[0] == 1:
        return position_ids[0]
    return position_ids
