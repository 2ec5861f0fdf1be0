"""Encoder and decoder: translation, summarising."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, no_type_check

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from ascender.core.combine import Parts
from ascender.hf.cache import AscenderCache
from ascender.hf.configuration import AscenderConfig
from ascender.hf.heads import Generates, Losing, cross_entropy, with_fields
from ascender.hf.modeling import AscenderModel, refuse_near_misses


@no_type_check  # transformers' fields are float32 by their types, bfloat16 in practice
@dataclass
class AscenderSeq2SeqOutput(Seq2SeqLMOutput):
    """transformers' own, and the named terms of every score, on demand."""

    encoder_parts: tuple[Parts, ...] | None = None
    decoder_parts: tuple[Parts, ...] | None = None
    cross_parts: tuple[Parts, ...] | None = None


class AscenderForConditionalGeneration(Losing, Generates, GenerationMixin):
    """One text from another; one table of embeddings for both sides and the output."""

    base_model_prefix = ""
    main_input_name = "input_ids"
    _tied_weights_keys = {
        "decoder.embed_tokens.weight": "encoder.embed_tokens.weight",
        "lm_head.weight": "encoder.embed_tokens.weight",
    }

    def __init__(self, config: AscenderConfig) -> None:
        config = with_fields(config, is_encoder_decoder=True)
        super().__init__(config)
        self.encoder = AscenderModel(config, decoder=False)
        self.decoder = AscenderModel(config, decoder=True)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.encoder.embed_tokens = self.decoder.embed_tokens = value

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        return self.encoder

    def new_cache(self) -> AscenderCache:
        """An empty one, to generate in several calls."""
        return self.decoder.new_cache()

    def prepare_decoder_input_ids_from_labels(self, labels: Int[Tensor, "B N"]) -> Tensor:
        """The labels one step later, behind the start token; −100 becomes padding."""
        start, pad = self.config.decoder_start_token_id, self.config.pad_token_id
        if start is None or pad is None:
            raise ValueError(
                f"decoder_start_token_id = {start}, pad_token_id = {pad}; expected both in the "
                "config, to make the decoder's inputs from labels"
            )
        later = F.pad(labels[:, :-1], (1, 0), value=start)
        return later.masked_fill(later == -100, pad)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B M"] | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Int[Tensor, "B N"] | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: AscenderCache | None = None,
        inputs_embeds: Float[Tensor, "B M dim"] | None = None,
        decoder_inputs_embeds: Float[Tensor, "B N dim"] | None = None,
        labels: Int[Tensor, "B N"] | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        output_parts: bool = False,
        neighbours: Int[Tensor, "..."] | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **ignored: Any,
    ) -> AscenderSeq2SeqOutput:
        """`labels`: the wanted text, −100 where none counts. `neighbours`: the encoder's."""
        refuse_near_misses(ignored, type(self))
        wanted: dict[str, Any] = {
            "output_attentions": output_attentions, "output_hidden_states": output_hidden_states,
            "output_parts": output_parts, "return_dict": True,
        }  # fmt: skip
        if labels is not None:
            use_cache = False if use_cache is None else use_cache
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        with self.collect(labels) as auxiliary:
            if encoder_outputs is None:
                encoder_outputs = self.encoder(
                    input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds,
                    neighbours=neighbours, **wanted,
                )  # fmt: skip
            states = encoder_outputs[0]
            outputs = self.decoder(
                decoder_input_ids, attention_mask=decoder_attention_mask,
                inputs_embeds=decoder_inputs_embeds, past_key_values=past_key_values,
                encoder_hidden_states=states, encoder_attention_mask=attention_mask,
                use_cache=use_cache, **wanted,
            )  # fmt: skip
        logits, loss = self.lm_head(outputs.last_hidden_state), None
        if labels is not None:
            loss = cross_entropy(logits, labels, self.smoothing)
            loss = self.add_losses(loss, auxiliary, labels, num_items_in_batch)
        return AscenderSeq2SeqOutput(
            loss=loss, logits=logits, past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.hidden_states, decoder_attentions=outputs.attentions,
            cross_attentions=outputs.cross_attentions, encoder_last_hidden_state=states,
            encoder_hidden_states=getattr(encoder_outputs, "hidden_states", None),
            encoder_attentions=getattr(encoder_outputs, "attentions", None),
            encoder_parts=getattr(encoder_outputs, "parts", None),
            decoder_parts=outputs.parts, cross_parts=outputs.cross_parts,
        )  # fmt: skip
