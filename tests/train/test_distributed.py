"""Replicas and shards: the losses of one process, and a checkpoint that one process loads."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import ascender
from ascender import hf
from ascender.hf import sharding
from ascender.nn.module import AscenderAttention

SCRIPT = Path(__file__).parents[2] / "examples" / "distributed.py"
SOURCE = str(Path(ascender.__file__).parents[1])
STEPS = 3

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed"),
    pytest.mark.usefixtures("unchecked_module"),
]


def example():
    spec = importlib.util.spec_from_file_location("distributed_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)  # as Python does for a script
        spec.loader.exec_module(module)
    return module


def start(how, *args):
    """What the script prints on two processes, by model."""
    env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    many = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, *many, str(SCRIPT), how, "--steps", str(STEPS), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["processes"] for one in found] == [2] * len(found)
    return {one["model"]: one["losses"] for one in found}


def arguments(**changed):
    options = {"attention": "ascender", "position": "rope", "steps": STEPS, "device": "cpu"}
    return Namespace(**{**options, "ddp": False, "fsdp": False, "out": None, **changed})


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The losses of this process, and the folder of what it learned."""
    run, folder = example(), tmp_path_factory.mktemp("alone")
    return {name: run.train(name, arguments(out=folder), 0, 1) for name in run.MODELS}, folder


@pytest.mark.slow
def test_replicas_learn_what_one_process_does(alone):
    found = start("--ddp")
    assert found.keys() == example().MODELS.keys()
    for name, losses in found.items():
        assert losses == pytest.approx(alone[0][name], abs=1e-4)


@pytest.mark.slow
def test_shards_learn_what_one_process_does_and_load_on_one(alone, tmp_path):
    losses, folder = alone
    found = start("--fsdp", "--out", tmp_path)
    for name, kind in example().MODELS.items():
        assert found[name] == pytest.approx(losses[name], abs=1e-4)
        parts = list((tmp_path / name / "sharded").glob("*.safetensors"))
        assert len(parts) == 2  # one a process
        assert not [p for p in (tmp_path / name).rglob("*") if p.suffix not in FORMATS]  # no pickle
        loaded, info = kind.from_pretrained(tmp_path / name, output_loading_info=True)
        assert not any(info.values())
        whole = kind.from_pretrained(folder / name).state_dict()
        for key, value in loaded.state_dict().items():
            torch.testing.assert_close(value, whole[key], atol=2e-3, rtol=0)
        batch = example().batch(name, STEPS)
        with torch.no_grad():
            mine, theirs = (
                example().loss_of(name, m.eval(), batch)
                for m in (loaded, kind.from_pretrained(folder / name))
            )
        assert mine.item() == pytest.approx(theirs.item(), abs=1e-4)


FORMATS = {".safetensors", ".json", ""}


def test_every_model_is_here():
    ours = {kind for name, kind in vars(hf).items() if re.match("Ascender(For|Model)", name)}
    assert set(example().MODELS.values()) == ours
    assert len(ours) == 6


def test_the_comparison_can_fail():
    """Other shares of the batch, other losses: 1e-4 is not slack."""
    run = example()
    torch.manual_seed(0)
    model = hf.AscenderForCausalLM(config()).eval()
    batch = run.batch("causal", 0)
    with torch.no_grad():
        whole = model(**batch).loss.item()
        wrong = model(**{k: v[:1] for k, v in batch.items()}).loss.item()
    assert abs(whole - wrong) > 1e-3


def config(**fields):
    return hf.AscenderConfig(
        vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, **fields
    )


@pytest.mark.usefixtures("group")
def test_a_shard_knows_its_rules():
    """Outside of forward the numbers are DTensors, one value a head in all."""
    model = hf.AscenderForCausalLM(config())
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    sharding.shard(model)
    layer = next(m for m in model.modules() if isinstance(m, AscenderAttention))
    with torch.no_grad():
        rules = layer.rules()
    assert rules.tau_sep.full_tensor().shape == (3,)
    assert layer.omega_sep.to_local().tolist() == pytest.approx([0.1] * 3)
    for name, value in sharding.state(model).items():
        assert torch.equal(value.full_tensor(), before[name])
    assert sharding.state(model).keys() == before.keys()  # tied weights once
    with torch.no_grad():
        written = model.eval().generate(
            torch.tensor([[1, 2, 3]]), max_new_tokens=4, do_sample=False, pad_token_id=0
        )
    assert written.shape == (1, 7)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("position", ["t5", "shaw", "learned", "alibi"])
def test_a_position_that_blocks_share_is_whole_in_every_block(position):
    """In the first block's group it would be gone when the second block asks."""
    run = example()
    one, two = (
        run.train("seq2seq", arguments(position=position, fsdp=fsdp, steps=2), 0, 1)
        for fsdp in (False, True)
    )
    assert two == pytest.approx(one, abs=1e-4)


@pytest.mark.usefixtures("group")
def test_replicas_while_a_rule_waits():
    """Before its start a rule costs nothing and its parameters get no gradient: DDP has to be told
    to look for those."""
    tokens = torch.randint(1, 61, (1, 300), generator=torch.Generator().manual_seed(0))

    def two_steps(**options):
        model = hf.AscenderForCausalLM(config())
        for layer in model.modules():
            if isinstance(layer, AscenderAttention):
                layer.lam_sep, layer.backend = 0.0, "folded"
        replica = torch.nn.parallel.DistributedDataParallel(model, **options)
        for _ in range(2):
            replica(input_ids=tokens, labels=tokens).loss.backward()

    two_steps(find_unused_parameters=True)
    with pytest.raises(RuntimeError, match="finished reduction"):
        two_steps()
