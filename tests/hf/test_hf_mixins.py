"""transformers' own tests of a model (ModelTesterMixin, GenerationTesterMixin) on ours.

Its wheel has no tests. Its source has, of the installed version:

    pip download --no-deps --no-binary :all: transformers==…     (without those of generation)
    git clone --depth 1 --branch v… https://github.com/huggingface/transformers    (all)
    pip install parameterized
    TRANSFORMERS_TESTS=…/tests python -m pytest -o addopts= tests/hf/test_hf_mixins.py

(-o addopts=: its tests have markers that ours do not declare.)

Without that this file is skipped; test_hf_common.py and test_hf_generate.py have what of them says
most.
"""

import importlib
import os
import sys
import types
import unittest
from pathlib import Path

import pytest

from support.hf_cases import HEADS, LABELS, B, N, config, inputs, tokens

FOLDER = Path(os.environ.get("TRANSFORMERS_TESTS", "/nowhere"))
if not (FOLDER / "test_modeling_common.py").exists():
    pytest.skip("TRANSFORMERS_TESTS names no tests of transformers", allow_module_level=True)
pytest.importorskip("parameterized")
pytestmark = pytest.mark.slow


def load():
    """(ModelTesterMixin, GenerationTesterMixin); an empty one where the source has none."""
    package = types.ModuleType("transformers_tests")
    package.__path__ = [str(FOLDER)]
    sys.modules[package.__name__] = package
    for name, mixin in (
        ("exporters.test_export", "Export"),
        ("generation.test_utils", "Generation"),
    ):
        if not (FOLDER / f"{name.replace('.', '/')}.py").exists():
            folder = types.ModuleType(f"transformers_tests.{name.split('.')[0]}")
            folder.__path__ = []
            empty = types.ModuleType(f"transformers_tests.{name}")
            setattr(empty, f"{mixin}TesterMixin", type(f"{mixin}TesterMixin", (), {}))
            sys.modules |= {folder.__name__: folder, empty.__name__: empty}
    common = importlib.import_module("transformers_tests.test_modeling_common")
    generation = importlib.import_module("transformers_tests.generation.test_utils")
    return common, generation.GenerationTesterMixin


common, GenerationTesterMixin = load()
from ascender import hf  # noqa: E402

pytestmark = pytest.mark.usefixtures("unchecked_module")
LABELLED = ("causal", "masked", "sequence", "token")  # the bare model is inside each


class Tester:
    """A tiny config and a batch for it, as the mixins ask for them."""

    batch_size, seq_length, is_training = B, N, True
    num_hidden_layers, hidden_size, num_attention_heads, num_labels = 2, 24, 2, LABELS

    def __init__(self, parent):
        self.parent = parent

    def get_config(self):
        return config(eos_token_id=2)

    def prepare_config_and_inputs_for_common(self):
        ids = tokens()
        return self.get_config(), {"input_ids": ids, "attention_mask": ids.new_ones(ids.shape)}


class AscenderTest(common.ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    all_model_classes = tuple(HEADS[name][0] for name in LABELLED)
    all_generative_model_classes = (hf.AscenderForCausalLM,)
    model_tester_class = Tester
    test_resize_embeddings = True

    def setUp(self):
        self.model_tester = Tester(self)

    def _prepare_for_class(self, inputs_dict, model_class, return_labels=False):
        """The mixin knows by class names who takes which labels, and does not know ours."""
        found = super()._prepare_for_class(inputs_dict, model_class, return_labels)
        if return_labels:
            head = next(name for name in LABELLED if HEADS[name][0] is model_class)
            found["labels"] = inputs(head)["labels"]
        return found
