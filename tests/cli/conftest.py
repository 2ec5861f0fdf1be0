"""A folder with one good file of every kind."""

import json
import shutil

import pytest
import torch
import transformers

from ascender import retrofit, save_adapter
from ascender.hf import AscenderConfig, AscenderForCausalLM
from ascender.hf.tokens import bytes_tokenizer
from ascender.lab.store import PACKED, packed_bytes
from ascender.train import Run
from ascender.train.folder import plain
from support.damaged_cases import FEW, RUN, SIZE
from support.lab_cases import record, records, store


@pytest.fixture(scope="session")
def good(tmp_path_factory):
    """What the damage is done to: runs/a0 (a run with its model), llama and its adapter, a lab."""
    here = tmp_path_factory.mktemp("good")
    torch.manual_seed(0)
    own = AscenderForCausalLM(AscenderConfig(**FEW, is_decoder=True))
    own.save_pretrained(here / "runs" / "a0" / "model")
    bytes_tokenizer().save_pretrained(here / "runs" / "a0" / "model")
    made = Run.of(**{**RUN, **SIZE})
    sheet = {"key": made.key, "run": plain(made)}
    (here / "runs" / "a0" / "run.json").write_text(json.dumps(sheet))
    kept = record("pylib", "vanilla", 0)
    (here / "runs" / "a0" / "record.json").write_text(json.dumps(kept))
    llama = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**FEW, intermediate_size=16, num_key_value_heads=2)
    )
    llama.save_pretrained(here / "llama")
    retrofit(llama, {"k": 2})
    save_adapter(llama, here / "adapter")
    some = records(("distinct",), ("vanilla", "ascender"), 2)
    lab = store(here / "lab", some)
    shutil.rmtree(lab / "trials")
    (lab / PACKED).write_bytes(packed_bytes(some))
    costs = {"rows": [{"variant": "vanilla", "n": 8, "flops": 1, "forward_ms": 1.0,
                       "training_ms": 2.0, "memory_mb": None}]}  # fmt: skip
    (lab / "costs.json").write_text(json.dumps(costs))
    bench = {"study": "layer", "command": "ascender bench layer", "rows": [],
             "machine": {"torch": "2.8", "threads": 1}}  # fmt: skip
    (here / "bench.json").write_text(json.dumps(bench))
    return here


@pytest.fixture
def folder(good, tmp_path, monkeypatch):
    """A copy of it, as the current folder."""
    shutil.copytree(good, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("ascender.hf.evaluate._lm_eval", lambda: None)  # reads for a minute
    monkeypatch.setattr("ascender.tasks.distinct.Distinct.examples", 13)
    monkeypatch.setattr("ascender.hf.evaluate.find", lambda *given: (None, []))
    return tmp_path / "here"
