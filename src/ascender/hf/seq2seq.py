"""Encoder and decoder: translation, summarising."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.modeling_outputs import Seq2SeqLMOutput

from ascender.hf.configuration import AscenderConfig
from ascender.hf.modeling import AscenderModel, AscenderPreTrainedModel
from ascender.losses import LossWeights, collect


class AscenderForConditionalGeneration(AscenderPreTrainedModel, GenerationMixin):
    """One text from another; one table of embeddings for both sides and the output."""

    base_model_prefix = ""
    main_input_name = "input_ids"
    _tied_weights_keys = {
        "decoder.embed_tokens.weight": "encoder.embed_tokens.weight",
        "lm_head.weight": "encoder.embed_tokens.weight",
    }

    def __init__(self, config: AscenderConfig) -> None:
        config.is_encoder_decoder = True
        super().__init__(config)
        self.loss_weights = config.loss_weights()
        self.encoder = AscenderModel(config, decoder=False)
        self.decoder = AscenderModel(config, decoder=True)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.encoder.embed_tokens = self.decoder.embed_tokens = value

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        return self.encoder

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

    def forward(
        self,
        input_ids: Int[Tensor, "B M"] | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Int[Tensor, "B N"] | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        labels: Int[Tensor, "B N"] | None = None,
        use_cache: bool | None = None,
        **ignored: Any,
    ) -> Seq2SeqLMOutput:
        """`labels`: the wanted text, −100 where none counts."""
        weights = self.loss_weights if labels is not None else LossWeights()
        with collect(self, weights) as found:
            if encoder_outputs is None:
                encoder_outputs = self.encoder(input_ids, attention_mask=attention_mask)
            if decoder_input_ids is None:
                if labels is None:
                    raise ValueError("expected decoder_input_ids or labels")
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
            states = encoder_outputs[0]
            outputs = self.decoder(
                decoder_input_ids, attention_mask=decoder_attention_mask,
                past_key_values=past_key_values, encoder_hidden_states=states,
                encoder_attention_mask=attention_mask,
                use_cache=False if labels is not None else use_cache,
            )  # fmt: skip
        logits, loss = self.lm_head(outputs.last_hidden_state), None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
            loss = loss + found.total() if weights else loss
        return Seq2SeqLMOutput(
            loss=loss, logits=logits, past_key_values=outputs.past_key_values,
            encoder_last_hidden_state=states,
        )  # fmt: skip
