"""The models: pre-norm blocks around the slot, and a head for every job.

    x = embed(tokens)                          absolute positions are added here, once
    x = x + attention(norm(x))                 any attention, position, normaliser, by name
    x = x + W_down( silu(W_gate x) · W_up x )  as Llama has it

With attention="vanilla" and position="rope" this is Llama, weight for weight (a test copies
them over), so a baseline is the same model with one word changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import ModelOutput

from ascender.combine import Parts
from ascender.hf.cache import AscenderCache
from ascender.hf.configuration import AscenderConfig
from ascender.module import AscenderAttention
from ascender.positions import Position


@dataclass
class AscenderOutput(ModelOutput):
    """What a model gives; `parts` are the named terms of every layer, on demand."""

    loss: Any = None
    logits: Any = None
    last_hidden_state: Any = None
    past_key_values: AscenderCache | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    parts: tuple[Parts, ...] | None = None


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

    def __init__(self, config: AscenderConfig, where: Position | None, cross: bool = False) -> None:
        super().__init__()
        dim, eps = config.hidden_size, config.norm_eps
        self.attention_norm = nn.RMSNorm(dim, eps=eps)
        self.attention = config.make_attention(where)
        self.cross_norm = nn.RMSNorm(dim, eps=eps) if cross else None
        self.cross = config.make_attention(None, cross=True) if cross else None
        self.mlp_norm = nn.RMSNorm(dim, eps=eps)
        assert config.intermediate_size is not None  # the config fills it in
        self.mlp = SwiGLU(dim, config.intermediate_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, *, context: Tensor | None = None, context_mask: Tensor | None = None,
        want: str | None = None, **how: Any,
    ) -> tuple[Tensor, Any]:  # fmt: skip
        """(x, what was wanted of the attention: None, "parts" or "neighbours")."""
        extra = {f"return_{want}": True} if want else {}
        y = self.attention(self.attention_norm(x), **how, **extra)
        y, found = y if want else (y, None)
        x = x + self.dropout(y)
        if self.cross is not None and self.cross_norm is not None and context is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), context, mask=context_mask))
        return x + self.dropout(self.mlp(self.mlp_norm(x))), found


class AscenderPreTrainedModel(PreTrainedModel):
    config_class = AscenderConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        std = self.config.initializer_range
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.RMSNorm):
            nn.init.ones_(module.weight)
        elif isinstance(module, AscenderAttention):
            module.reset_geometry()  # U has a width of its own


class AscenderModel(AscenderPreTrainedModel):
    """Tokens in, states out: an encoder, or a decoder where config.is_decoder."""

    def __init__(self, config: AscenderConfig, decoder: bool | None = None) -> None:
        super().__init__(config)
        self.causal = config.is_decoder if decoder is None else decoder
        cross = config.is_encoder_decoder and self.causal
        layers = (config.num_decoder_layers if cross else None) or config.num_hidden_layers
        where = config.make_position()
        absolute = type(where).embed is not Position.embed
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.position = where if absolute else None
        self.layers = nn.ModuleList(
            Block(config, None if absolute else where, cross) for _ in range(layers)
        )
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.embed_tokens = value

    def new_cache(self) -> AscenderCache:
        return AscenderCache([cast(Block, block).attention for block in self.layers])

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
        encoder_hidden_states: Float[Tensor, "B M dim"] | None = None,
        encoder_attention_mask: Tensor | None = None,
        return_dict: bool | None = None,
        **ignored: Any,
    ) -> AscenderOutput:
        """`neighbours`: index lists (a grid, a graph) that every layer goes by; `output_parts`:
        the named terms of every score."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("expected exactly one of input_ids and inputs_embeds")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        use_cache = self.causal and bool(self.config.use_cache if use_cache is None else use_cache)
        if self.training and self.gradient_checkpointing:
            use_cache = False
        if use_cache and past_key_values is None and not (self.training or torch.is_grad_enabled()):
            past_key_values = self.new_cache()
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        if self.position is not None:
            where = position_ids
            if where is None:
                where = torch.arange(seen, seen + x.shape[1], device=x.device)
            x = self.position.embed(x, where)
        how: dict[str, Any] = {
            "mask": _real(attention_mask), "positions": _row(position_ids),
            "context": encoder_hidden_states, "context_mask": _real(encoder_attention_mask),
            "causal": self.causal,
        }  # fmt: skip
        outputs = self._stack(
            x, how, past_key_values, neighbours,
            bool(output_hidden_states or self.config.output_hidden_states),
            bool(output_attentions or output_parts or self.config.output_attentions),
        )  # fmt: skip
        if not (output_attentions or self.config.output_attentions):
            outputs.attentions = None
        if not output_parts:
            outputs.parts = None
        return outputs

    def _stack(
        self, x: Tensor, how: dict[str, Any], caches: AscenderCache | None,
        neighbours: Tensor | None, keep_states: bool, keep_parts: bool,
    ) -> AscenderOutput:  # fmt: skip
        states, parts, near = [x], [], neighbours
        share = self.config.share_neighbours
        for i, block in enumerate(self.layers):
            if neighbours is None and i % share == 0:
                near = None
            want = "parts" if keep_parts else "neighbours" if share > 1 and near is None else None
            cache = None if caches is None else caches[i]
            x, found = block(x, **how, cache=cache, neighbours=near, want=want)
            if keep_parts:
                parts.append(found)
            elif want:
                near = found
            states.append(x)
        x = self.norm(x)
        states[-1] = x
        return AscenderOutput(
            last_hidden_state=x, past_key_values=caches,
            hidden_states=tuple(states) if keep_states else None,
            attentions=tuple(p.weights for p in parts), parts=tuple(parts),
        )  # fmt: skip


def _real(mask: Tensor | None) -> Bool[Tensor, "B M"] | None:
    """transformers' mask (1 or True = real) as ours; None where all are."""
    if mask is None:
        return None
    real = mask.to(torch.bool)
    return None if bool(real.all()) else real


def _row(position_ids: Tensor | None) -> Tensor | None:
    """Positions (1, N) are (N,): the same for all."""
    if position_ids is not None and position_ids.ndim == 2 and position_ids.shape[0] == 1:
        return position_ids[0]
    return position_ids
