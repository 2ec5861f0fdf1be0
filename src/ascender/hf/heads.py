"""Task heads: hidden states to logits, and a loss with auxiliary losses where labels are given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.generation import GenerationMode
from transformers.utils.generic import can_return_tuple

from ascender.core.losses import Collector, LossWeights, collect
from ascender.hf.cache import AscenderCache
from ascender.hf.configuration import AscenderConfig
from ascender.hf.modeling import AscenderModel, AscenderOutput, AscenderPreTrainedModel
from ascender.nn.slot import Attention

IGNORED = -100  # transformers' ignore index


class Generates:
    """generate() with a cache of the model's own kind."""

    _supported_generation_modes = [
        GenerationMode.GREEDY_SEARCH,
        GenerationMode.SAMPLE,
        GenerationMode.BEAM_SEARCH,
        GenerationMode.BEAM_SAMPLE,
        GenerationMode.ASSISTED_GENERATION,
    ]
    new_cache: Callable[[], AscenderCache]

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the model makes its own

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *more: Any
    ) -> None:
        """A cache of ours where one is wanted and none is given. Its buffers grow."""
        kind = generation_config.cache_implementation
        if kind not in (None, "dynamic"):
            raise ValueError(
                f"cache_implementation = {kind!r}; expected None: the model makes a cache of its "
                "own kind, which grows, and is bounded where there is a window"
            )
        super()._prepare_cache_for_generation(  # type: ignore[misc]
            generation_config, model_kwargs, *more
        )
        wanted = generation_config.use_cache is not False and decodes(self)
        if wanted and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = self.new_cache()

    def _validate_generation_mode(self, mode: Any, *more: Any) -> None:
        if mode == GenerationMode.ASSISTED_GENERATION and not self.new_cache().is_croppable:
            raise ValueError(
                f"assisted generation with {self.config.attention} attention, "  # type: ignore[attr-defined]
                "whose cache is one running state that cannot go back; expected an attention that "
                "keeps its keys, or no assistant"
            )
        super()._validate_generation_mode(mode, *more)  # type: ignore[misc]


def decodes(model: Any) -> bool:
    """Whether every layer can go by a cache."""
    return all(m.decodes for m in model.modules() if isinstance(m, Attention))


class Losing(AscenderPreTrainedModel):
    """A model with a loss: the task's, and the auxiliary losses while labels are given."""

    def __init__(self, config: AscenderConfig) -> None:
        super().__init__(config)
        self.loss_weights = config.loss_weights()

    def collect(self, labels: Tensor | None) -> AbstractContextManager[Collector]:
        """The auxiliary losses of what runs inside, where there is a loss to add them to."""
        return collect(self, LossWeights() if labels is None else self.loss_weights)

    def add_losses(
        self, loss: Tensor, auxiliary: Collector, labels: Tensor, items: Tensor | int | None
    ) -> Tensor:
        """(task loss + auxiliary losses) · share."""
        if auxiliary.weights:
            loss = loss + auxiliary.total().to(loss.dtype)
        return loss * share(labels, items)


class _Head(Losing):
    """A model and a linear map of its hidden states."""

    causal = False

    def __init__(self, config: AscenderConfig) -> None:
        super().__init__(with_fields(config, is_decoder=self.causal))
        self.model = AscenderModel(self.config)


def with_fields(config: AscenderConfig, **fields: Any) -> AscenderConfig:
    """A copy with these fields; the caller's config stays as it is."""
    changed = {name: value for name, value in fields.items() if getattr(config, name) != value}
    if changed:
        config = copy(config)
        for name, value in changed.items():
            setattr(config, name, value)
    return config


def with_logits(outputs: AscenderOutput, logits: Tensor, loss: Tensor | None) -> AscenderOutput:
    """A head's output from its model's."""
    rest = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
    return AscenderOutput(loss=loss, logits=logits, **rest)


def share(labels: Tensor, items: Tensor | int | None) -> Tensor | float:
    """The fraction of a step's labels that are in this call (1 where the trainer does not pass
    their number), so that the sum over accumulated batches is the mean over the step."""
    return 1.0 if items is None else (labels != IGNORED).sum() / items


def cross_entropy(
    logits: Float[Tensor, "B N c"], labels: Int[Tensor, "B N"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """The mean over the labels that are not ignored; 0 where all are."""
    labels = labels.to(logits.device)
    total = F.cross_entropy(
        logits.flatten(0, 1).float(), labels.flatten(), reduction="sum", ignore_index=IGNORED,
        label_smoothing=smoothing,
    )  # fmt: skip
    return total / (labels != IGNORED).sum().clamp_min(1)


class _LanguageModel(_Head):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: AscenderConfig) -> None:
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


class AscenderForCausalLM(_LanguageModel, Generates, GenerationMixin):
    """Predicts the next token."""

    causal = True

    def new_cache(self) -> AscenderCache:
        """An empty cache, to generate in several calls."""
        return self.model.new_cache()

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B N"] | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Int[Tensor, "..."] | None = None,
        past_key_values: AscenderCache | None = None,
        inputs_embeds: Float[Tensor, "B N dim"] | None = None,
        labels: Int[Tensor, "B N"] | None = None,
        use_cache: bool | None = None,
        neighbours: Int[Tensor, "..."] | None = None,
        logits_to_keep: int | Int[Tensor, "n"] = 0,
        num_items_in_batch: Tensor | int | None = None,
        **inputs: Any,
    ) -> AscenderOutput:
        """`labels`: the tokens themselves, −100 to ignore one; they are shifted here."""
        if labels is not None and use_cache is None:
            use_cache = False
        with self.collect(labels) as auxiliary:
            outputs = self.model(
                input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                past_key_values=past_key_values, inputs_embeds=inputs_embeds, use_cache=use_cache,
                neighbours=neighbours, **{**inputs, "return_dict": True},
            )  # fmt: skip
        keep = logits_to_keep
        kept = slice(-keep, None) if isinstance(keep, int) and keep else keep
        states = outputs.last_hidden_state
        logits = self.lm_head(states if isinstance(kept, int) else states[:, kept])
        loss = None
        if labels is not None:
            later = labels[:, 1:]
            loss = cross_entropy(logits[:, :-1], later, self.smoothing)
            loss = self.add_losses(loss, auxiliary, later, num_items_in_batch)
        return with_logits(outputs, logits, loss)


class _EncoderHead(_Head):
    """Reads the whole sequence at once: states to logits, one loss."""

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B N"] | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Int[Tensor, "..."] | None = None,
        inputs_embeds: Float[Tensor, "B N dim"] | None = None,
        labels: Tensor | None = None,
        neighbours: Int[Tensor, "..."] | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **inputs: Any,
    ) -> AscenderOutput:
        """`labels`: as `task_loss` describes them."""
        with self.collect(labels) as auxiliary:
            outputs = self.model(
                input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                inputs_embeds=inputs_embeds, neighbours=neighbours,
                **{**inputs, "return_dict": True},
            )  # fmt: skip
        logits, loss = self.logits(outputs.last_hidden_state, attention_mask), None
        if labels is not None:
            loss = self.task_loss(logits, labels)
            loss = self.add_losses(loss, auxiliary, labels, num_items_in_batch)
        return with_logits(outputs, logits, loss)

    def logits(self, states: Float[Tensor, "B N dim"], mask: Tensor | None) -> Tensor:
        """One row of logits per token, or per sequence."""
        raise NotImplementedError

    def task_loss(self, logits: Tensor, labels: Tensor) -> Float[Tensor, ""]:
        """`labels`: one class index per token; −100 is ignored."""
        return cross_entropy(logits, labels, self.smoothing)


class AscenderForMaskedLM(_LanguageModel, _EncoderHead):
    """Predicts the tokens behind the masks; labels are −100 everywhere else."""

    def logits(self, states: Float[Tensor, "B N dim"], mask: Tensor | None) -> Tensor:
        return self.lm_head(states)


class _Classifier(_EncoderHead):
    def __init__(self, config: AscenderConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def logits(self, states: Float[Tensor, "B N dim"], mask: Tensor | None) -> Tensor:
        return self.classifier(self.dropout(states))


class AscenderForTokenClassification(_Classifier):
    """A label for every token."""


class AscenderForSequenceClassification(_Classifier):
    """A label for the whole sequence, from the mean state of its real tokens."""

    def logits(self, states: Float[Tensor, "B N dim"], mask: Tensor | None) -> Tensor:
        return self.classifier(self.dropout(mean(states, mask)))

    def task_loss(self, logits: Float[Tensor, "B c"], labels: Tensor) -> Float[Tensor, ""]:
        """`labels`: class indices; numbers where num_labels = 1 (regression); rows of 0 and 1 as
        floats for several labels at once; or what config.problem_type says."""
        logits, kind = logits.float(), self.config.problem_type
        if kind == "regression" or (kind is None and self.config.num_labels == 1):
            return F.mse_loss(logits, labels.to(logits.dtype).view_as(logits))
        if kind == "multi_label_classification" or (kind is None and labels.is_floating_point()):
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return F.cross_entropy(logits, labels.view(-1), label_smoothing=self.smoothing)


def mean(x: Float[Tensor, "B N dim"], mask: Tensor | None) -> Float[Tensor, "B dim"]:
    """Over the real tokens."""
    if mask is None:
        return x.mean(1)
    real = mask.to(torch.bool).unsqueeze(-1)
    return torch.where(real, x, 0).sum(1) / real.sum(1).clamp_min(1)
