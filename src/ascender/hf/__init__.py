"""ASCender as Hugging Face models: load, train, generate, evaluate and share as any other.

    from ascender.hf import AscenderConfig, AscenderForCausalLM
    model = AscenderForCausalLM(AscenderConfig.preset("tiny", vocab_size=256))

Importing this registers them with transformers' Auto classes, and lets its save_pretrained and
from_pretrained carry a retrofit (hf.pretrained).
"""

from __future__ import annotations

try:
    import transformers
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f'ascender.hf needs {missing.name}; expected: pip install "ascender-attention[hf]"',
        name=missing.name,
    ) from None

from ascender.hf.cache import AscenderCache
from ascender.hf.configuration import PRESETS, AscenderConfig
from ascender.hf.heads import (
    AscenderForCausalLM,
    AscenderForMaskedLM,
    AscenderForSequenceClassification,
    AscenderForTokenClassification,
)
from ascender.hf.modeling import AscenderModel, AscenderOutput
from ascender.hf.retrofit.pretrained import install
from ascender.hf.seq2seq import AscenderForConditionalGeneration
from ascender.hf.trainer import SwarmCallback

__all__ = [
    "PRESETS",
    "AscenderCache",
    "AscenderConfig",
    "AscenderForCausalLM",
    "AscenderForConditionalGeneration",
    "AscenderForMaskedLM",
    "AscenderForSequenceClassification",
    "AscenderForTokenClassification",
    "AscenderModel",
    "AscenderOutput",
    "SwarmCallback",
]

install()
transformers.AutoConfig.register("ascender", AscenderConfig, exist_ok=True)
for auto, model in (
    (transformers.AutoModel, AscenderModel),
    (transformers.AutoModelForCausalLM, AscenderForCausalLM),
    (transformers.AutoModelForMaskedLM, AscenderForMaskedLM),
    (transformers.AutoModelForSequenceClassification, AscenderForSequenceClassification),
    (transformers.AutoModelForTokenClassification, AscenderForTokenClassification),
    (transformers.AutoModelForSeq2SeqLM, AscenderForConditionalGeneration),
):
    auto.register(AscenderConfig, model, exist_ok=True)
