"""AscenderConfig: sizes, and what fills the slot, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, no_type_check

import torch
from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from ascender.common.user_code import import_code, is_code, is_imported
from ascender.common.validate import check_int, check_number, lookup, nearest
from ascender.core.normalizers import NORMALIZERS, Normalizer, normalizer
from ascender.core.schedule import LOSSES, LossWeights, check_lam
from ascender.nn.baselines import ATTENTIONS, OWNED, attention, attention_kind, options_of
from ascender.nn.positions import POSITIONS, Position, position
from ascender.nn.rule_parameters import OPTIONS
from ascender.nn.slot import Attention

PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    "small": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4},
    "medium": {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
}

# Names that transformers knows, which resemble ours.
THEIRS = ("output_attentions", "num_labels", "attn_implementation", "position_embedding_type")


@no_type_check  # transformers checks its fields, and knows of more than are written here
@strict
class AscenderConfig(PreTrainedConfig):
    """The sizes of a pre-norm Transformer and the attention, position and normaliser of its slot.

    attention, position, normalizer          names (`ascender list attentions`, …)
    …_options                                what each takes beyond its sizes, such as {"k": 8};
                                             attention's may be given by name too: k=8, tau_sep=0.5
    cross_attention                          of a decoder; None: `attention` where it can
    plain_layers                             layers, from 0, that have vanilla attention instead
    share_neighbours                         layers that go by one search for neighbours (in flock
                                             scope: for far keys)
    dropout                                  on what a block adds; on the weights: in the options
    vector_size                              width of `vectors`, read by a linear map; 0: none
    lam                                      λ of the rules where not 1, as a schedule left them
    align_loss, sep_loss, coh_loss           weights of the auxiliary losses, off at 0
    index_loss                               the same, of the index of flock scope
    label_smoothing                          of class labels and tokens, while training
    """

    model_type = "ascender"
    keys_to_ignore_at_inference = ["past_key_values", "parts"]

    vocab_size: int = 32000
    hidden_size: int = 256
    num_hidden_layers: int = 4
    num_decoder_layers: int | None = None
    num_attention_heads: int = 4
    num_key_value_heads: int | None = None
    intermediate_size: int | None = None
    max_position_embeddings: int = 2048
    attention: str = "ascender"
    attention_options: dict[str, Any] | None = None
    position: str = "rope"
    position_options: dict[str, Any] | None = None
    normalizer: str = "softmax"
    normalizer_options: dict[str, Any] | None = None
    cross_attention: str | None = None
    plain_layers: list[int] | None = None
    share_neighbours: int = 1
    vector_size: int = 0
    lam: dict[str, float] | None = None
    align_loss: float = 0.0
    sep_loss: float = 0.0
    coh_loss: float = 0.0
    index_loss: float = 0.0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    norm_eps: float = 1e-6
    initializer_range: float = 0.02
    is_decoder: bool = False
    use_cache: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    decoder_start_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        for name in ("attention_options", "position_options", "normalizer_options"):
            setattr(self, name, _mapping(name, getattr(self, name)))
        kwargs = self._take_options(kwargs)
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        if self.num_decoder_layers is None:
            self.num_decoder_layers = self.num_hidden_layers
        if self.intermediate_size is None and isinstance(self.hidden_size, int):
            # 8/3, as gated layers have it, in steps of 16
            self.intermediate_size = -(-8 * self.hidden_size // 48) * 16
        super().__post_init__(**kwargs)

    def _take_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """What is given beyond the fields, without the options of the attention among it, which go
        into attention_options."""
        fields, options = type(self).__annotations__, dict(self.attention_options or {})
        known: list[str] = []
        if not is_code(self.attention) or is_imported(self.attention):
            known = options_of(attention_kind(self.attention))
        rest = {}
        for name, value in given.items():
            if name in known and name not in OWNED:
                if name in options:
                    raise ValueError(
                        f"{name} = {value!r}, and attention_options has it too; expected it once"
                    )
                options[name] = value
            elif name not in THEIRS and (near := nearest(name, (*fields, *OPTIONS))):
                raise ValueError(f"unknown field {name!r}{near}")
            else:
                rest[name] = value
        self.attention_options = options
        return rest

    def __getattr__(self, name: str) -> Any:
        """The options of the rules that are given, by name: config.tau_sep."""
        options = vars(self).get("attention_options") or {}
        if name in OPTIONS and name in options:
            return options[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def validate_architecture(self) -> None:
        """Every field, by name; the slot by filling it once, without memory."""
        for name in (
            "vocab_size", "hidden_size", "num_hidden_layers", "num_decoder_layers",
            "num_attention_heads", "num_key_value_heads", "intermediate_size",
            "max_position_embeddings", "share_neighbours",
        ):  # fmt: skip
            check_int(name, getattr(self, name), 1)
        for name in (*(f"{loss}_loss" for loss in LOSSES), "initializer_range", "norm_eps"):
            check_number(name, getattr(self, name), "a number ≥ 0", 0)
        for name in ("dropout", "label_smoothing"):
            check_number(name, getattr(self, name), "a number in [0, 1)", 0, 1)
        check_int("vector_size", self.vector_size, 0)
        check_lam(self.lam or {})
        for name, whole in (
            ("num_attention_heads", "hidden_size"), ("num_key_value_heads", "num_attention_heads"),
        ):  # fmt: skip
            if getattr(self, whole) % getattr(self, name):
                raise ValueError(
                    f"{name} = {getattr(self, name)}; expected a divisor of {whole} = "
                    f"{getattr(self, whole)}"
                )
        attention_kind(self.attention)
        lookup("position", self.position, POSITIONS)
        lookup("normalizer", self.normalizer, NORMALIZERS)
        if self.cross_attention is not None:
            kind = attention_kind(self.cross_attention, "cross_attention")
            if not kind.crosses:
                fit = ", ".join(name for name, kind in ATTENTIONS.items() if kind.crosses)
                raise ValueError(
                    f"cross_attention = {self.cross_attention!r}, which has no place for another "
                    f"sequence; expected one of {fit}"
                )
        self._validate_plain_layers()
        with torch.device("meta"):
            attention = self.make_attention(self.make_position())
        if self.index_loss and not getattr(attention, "has_index", False):
            raise ValueError(
                f"index_loss = {self.index_loss:g}, and {self.attention} attention has no index "
                "here; expected 0, or attention_options={'scope': 'flock'}"
            )

    def _validate_plain_layers(self) -> None:
        layers = self.num_hidden_layers + self.num_decoder_layers * self.is_encoder_decoder
        for layer in self.plain_layers or []:
            if not isinstance(layer, int) or not 0 <= layer < layers:
                raise ValueError(
                    f"plain_layers has {layer!r}; expected ints from 0 to {layers - 1}"
                )
        if self.plain_layers and self.share_neighbours > 1:
            raise ValueError(
                f"share_neighbours = {self.share_neighbours} with plain_layers = "
                f"{self.plain_layers}, which find no neighbours; expected one of the two"
            )
        if self.plain_layers and self.attention == "matched":
            raise ValueError(
                "plain_layers with matched attention, whose heads are wider; expected another "
                "attention"
            )

    @classmethod
    def preset(cls, size: str, **fields: Any) -> AscenderConfig:
        """A size by name: tiny, small, medium, large."""
        return cls(**{**lookup("preset", size, PRESETS), **fields})

    def make_position(self) -> Position:
        """One position for the whole stack."""
        options = dict(self.position_options or {})
        if self.position == "learned":
            options.setdefault("length", self.max_position_embeddings)
        return position(self.position, **self._sizes(), **options)

    def make_normalizer(self) -> Normalizer:
        return normalizer(
            self.normalizer, heads=self.num_attention_heads, **(self.normalizer_options or {})
        )

    def make_attention(
        self, where: Position | None, cross: bool = False, layer: int | None = None
    ) -> Attention:
        """The attention of a layer, or (None) of one that is not plain. An absolute position is
        added once, at the bottom of the stack, so the layers have none of it. What is drawn at
        random (Performer, BigBird, the shuffled control) is drawn anew for every layer."""
        name, options = self.attention, dict(self.attention_options or {})
        without: tuple[str, ...] = ()
        if cross:
            name = self.cross_attention or (name if attention_kind(name).crosses else "vanilla")
            where, without = None, ("window", "n_global")
        elif layer in (self.plain_layers or []):
            name, without = "vanilla", ("backend",)
            if options.get("scope") == "flock":  # there, neither is a limit of what is visible
                without += ("window", "n_global")
        if without:
            known = set(options_of(attention_kind(name))).difference(without)
            options = {option: value for option, value in options.items() if option in known}
        if "seed" in options_of(attention_kind(name)):
            options["seed"] = options.get("seed", 0) + (layer or 0)
        return attention(
            name, self.hidden_size, self.num_attention_heads, kv_heads=self.num_key_value_heads,
            position=where, normalizer=self.make_normalizer(), **options,
        )  # fmt: skip

    def loss_weights(self) -> LossWeights:
        """α of the auxiliary losses. A model has no clock: a trainer's schedule sets its
        `loss_weights` to `.at(step, total)` (hf.SwarmCallback does)."""
        return LossWeights(**{name: getattr(self, f"{name}_loss") for name in LOSSES})

    def _sizes(self) -> dict[str, int]:
        with torch.device("meta"):
            width = self.make_attention(None).head_dim  # a matched vanilla's is wider
        return {"dim": self.hidden_size, "heads": self.num_attention_heads, "head_dim": width}


def _mapping(name: str, given: Any) -> dict[str, Any]:
    """A copy of options by name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} = {given!r}; expected options by name, such as {{'k': 8}}")
    return dict(given)


def admit_code(source: str, trust_code: bool) -> None:
    """A saved config may name an attention by module:Class. It is used where its module is imported
    already, or (trust_code) is imported for it; else it is an error that says so."""
    fields, _ = PreTrainedConfig.get_config_dict(source)
    if fields.get("model_type") != AscenderConfig.model_type:
        return
    for field in ("attention", "cross_attention"):
        name = fields.get(field)
        if is_code(name):
            if trust_code:
                import_code(name, here=True)
            attention_kind(name, f"{source}: {field}")
