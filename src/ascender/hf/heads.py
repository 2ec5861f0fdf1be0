"""Heads: what to do with the states. Labels in, loss out, auxiliary losses included."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import GenerationMixin

from ascender.hf.configuration import AscenderConfig
from ascender.hf.modeling import AscenderModel, AscenderOutput, AscenderPreTrainedModel
from ascender.losses import collect


class _Head(AscenderPreTrainedModel):
    """A model and a linear map of its states."""

    causal = False

    def __init__(self, config: AscenderConfig) -> None:
        if self.causal:
            config.is_decoder = True
        super().__init__(config)
        self.loss_weights = config.loss_weights()
        self.model = AscenderModel(config, decoder=self.causal)

    def run(self, labels: Tensor | None, **inputs: Any) -> tuple[AscenderOutput, Tensor | None]:
        """The model's outputs, and the auxiliary losses where there is a loss to add them to."""
        if labels is None or not self.loss_weights:
            return self.model(**inputs), None
        with collect(self.model, self.loss_weights) as found:
            outputs = self.model(**inputs)
        return outputs, found.total()


def _add(loss: Tensor, more: Tensor | None) -> Tensor:
    return loss if more is None else loss + more.to(loss.dtype)


class AscenderForCausalLM(_Head, GenerationMixin):
    """The next token. Generates, with a cache of its own kind."""

    causal = True
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: AscenderConfig) -> None:
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the model makes its own

    def forward(
        self,
        input_ids: Int[Tensor, "B N"] | None = None,
        labels: Int[Tensor, "B N"] | None = None,
        logits_to_keep: int = 0,
        **inputs: Any,
    ) -> AscenderOutput:
        """`labels`: the tokens themselves, −100 where none counts; shifted here."""
        if labels is not None:
            inputs["use_cache"] = False
        outputs, more = self.run(labels, input_ids=input_ids, **inputs)
        states = outputs.last_hidden_state
        outputs.logits = self.lm_head(states[:, -logits_to_keep:] if logits_to_keep else states)
        if labels is not None:
            outputs.loss = _add(
                self.loss_function(outputs.logits, labels, vocab_size=self.config.vocab_size), more
            )
        return outputs


class AscenderForMaskedLM(_Head):
    """The tokens behind the masks."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: AscenderConfig) -> None:
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Int[Tensor, "B N"] | None = None,
        labels: Int[Tensor, "B N"] | None = None,
        **inputs: Any,
    ) -> AscenderOutput:
        """`labels`: −100 but where a token is to be told."""
        outputs, more = self.run(labels, input_ids=input_ids, **inputs)
        outputs.logits = self.lm_head(outputs.last_hidden_state)
        if labels is not None:
            outputs.loss = _add(
                F.cross_entropy(outputs.logits.flatten(0, 1).float(), labels.flatten()), more
            )
        return outputs


class AscenderForTokenClassification(_Head):
    """A label for every token."""

    def __init__(self, config: AscenderConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Int[Tensor, "B N"] | None = None,
        labels: Int[Tensor, "B N"] | None = None,
        **inputs: Any,
    ) -> AscenderOutput:
        outputs, more = self.run(labels, input_ids=input_ids, **inputs)
        outputs.logits = self.classifier(self.dropout(outputs.last_hidden_state))
        if labels is not None:
            outputs.loss = _add(
                F.cross_entropy(outputs.logits.flatten(0, 1).float(), labels.flatten()), more
            )
        return outputs


class AscenderForSequenceClassification(_Head):
    """A label for the whole: the mean of its real tokens' states."""

    def __init__(self, config: AscenderConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Int[Tensor, "B N"] | None = None,
        labels: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **inputs: Any,
    ) -> AscenderOutput:
        """`labels`: class indices, or numbers where num_labels = 1 (regression)."""
        outputs, more = self.run(
            labels, input_ids=input_ids, attention_mask=attention_mask, **inputs
        )
        pooled = mean(outputs.last_hidden_state, attention_mask)
        outputs.logits = self.classifier(self.dropout(pooled))
        if labels is not None:
            outputs.loss = _add(self._loss(outputs.logits.float(), labels), more)
        return outputs

    def _loss(self, logits: Float[Tensor, "B c"], labels: Tensor) -> Tensor:
        if self.config.num_labels == 1:
            return F.mse_loss(logits.squeeze(-1), labels.to(logits.dtype).view(-1))
        if labels.is_floating_point():
            return F.binary_cross_entropy_with_logits(logits, labels)
        return F.cross_entropy(logits, labels.view(-1))


def mean(x: Float[Tensor, "B N dim"], mask: Tensor | None) -> Float[Tensor, "B dim"]:
    """Over the real tokens."""
    if mask is None:
        return x.mean(1)
    real = mask.to(x.dtype).unsqueeze(-1)
    return (x * real).sum(1) / real.sum(1).clamp_min(1)
