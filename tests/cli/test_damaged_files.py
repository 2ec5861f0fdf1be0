"""Damaged files: one line that names the file, whatever the command; never a traceback."""

import gzip
import json
import os
import resource
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from typer.testing import CliRunner

from ascender import retrofit, save_adapter
from ascender.cli import app, errors
from ascender.common.files import Damaged, made_of, read_json
from ascender.hf import AscenderConfig, AscenderForCausalLM
from ascender.hf.tokens import BYTES, bytes_tokenizer
from ascender.lab.store import PACKED, packed_bytes
from ascender.lab.verdict import DecisionRule
from ascender.train import Run
from ascender.train.folder import plain
from support.lab_cases import record, records, store

FEW = {"vocab_size": BYTES, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
RUN = {"task": "pylib", "variant": "vanilla", "seed": 0, "options": {}}
NESTED = "[" * 100_000


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


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "200", "TERM": "dumb"})


def told(args, *names):
    """One line on stderr, an exit code that is not 0, no bug; with these words in it."""
    done = run(*args)
    assert isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == 1, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    for name in names:
        assert name in line
    assert len(line) < 700
    return line


OUT = ("--out", "out/new")
SIZE = {"hidden": 16, "layers": 1, "heads": 2, "steps": 1}
TRAIN = ["train", "--task", "pylib", "--variant", "vanilla"]
TRAIN += [word for name, n in SIZE.items() for word in (f"--{name}", str(n))]
FULL = ["train", "--task", "distinct", "--variant", "vanilla", "--batch", "2"]
OF_A_MODEL = {
    "view": ("view", "{}", "--text", "boids", "--out", "page.html"),
    "insight": ("insight", "{}", "--task", "pylib", "--examples", "1"),
    "limits": ("limits", "{}", "--lengths", "8", "--batch", "1"),
    "eval": ("eval", "{}", "--tasks", "sst2"),
}  # fmt: skip


def words(command, model):
    return [word.format(model) for word in OF_A_MODEL[command]]


# They read through the same functions: one of them always, the others where time does not matter.
ONE_OF_THEM = [
    pytest.param(command, marks=() if command == "view" else pytest.mark.slow)
    for command in OF_A_MODEL
]


def test_undamaged_they_are_read(folder):
    """Else everything below could be refused for another reason."""
    assert run(*words("view", "runs/a0")).exit_code == 0
    assert run(*words("view", "llama"), "--adapter", "adapter").exit_code == 0
    assert run("lab", "report", "lab", *OUT).exit_code == 0
    assert run("bench", "report", "bench.json").exit_code == 0
    assert run(*TRAIN, "--out", "runs/a0").exit_code == 0


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def first(path):
    """The object in a file; of rows the first."""
    text = path.read_text()
    return json.loads(text.splitlines()[0] if path.suffix == ".jsonl" else text)


def without(*keys):
    """JSON without a field: without("run", "seed") takes seed out of run."""

    def damage(path):
        found = first(path)
        inner = found
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        path.write_text(json.dumps(found))

    return damage


def changed(**fields):
    def damage(path):
        path.write_text(json.dumps({**first(path), **fields}))

    return damage


def text(value):
    return lambda path: path.write_text(value)


ANY = {
    "empty": text(""),
    "no JSON": text("{"),
    "no UTF-8": lambda path: path.write_bytes(b"\xff\xfe{}"),
    "no object": text("[1]"),
    "null": text("null"),
    "nested": text(NESTED),
}
BYTES_OF = {"empty": text(""), "truncated": truncated, "garbage": text("x" * 4000)}
CONFIGS = ANY | {
    "width": changed(hidden_size="wide"),
    "heads": changed(num_attention_heads=0),
    "no type": without("model_type"),
    "other type": changed(model_type="flock"),
    "dtype": changed(dtype="float99"),
    "architectures": changed(architectures=3),
}


@pytest.mark.parametrize("command", ONE_OF_THEM)
@pytest.mark.parametrize("damage", CONFIGS)
@pytest.mark.parametrize("model", ["runs/a0/model", "llama"])
def test_config(folder, command, damage, model):
    CONFIGS[damage](folder / model / "config.json")
    assert "No such" not in told(words(command, model), "config.json")


@pytest.mark.parametrize("command", OF_A_MODEL)
@pytest.mark.parametrize("damage", BYTES_OF)
def test_weights(folder, command, damage):
    BYTES_OF[damage](folder / "runs/a0/model/model.safetensors")
    told(words(command, "runs/a0"), "runs/a0/model/model.safetensors")


@pytest.mark.parametrize("command", OF_A_MODEL)
def test_other_weights(folder, command):
    weights = folder / "llama" / "model.safetensors"
    shutil.copy(folder / "runs/a0/model/model.safetensors", weights)
    changed(hidden_size=24)(folder / "runs/a0/model/config.json")
    told(words(command, "runs/a0"), "runs/a0/model/model.safetensors")
    pickled = folder / "llama" / "pytorch_model.bin"
    torch.save(load_file(weights), pickled)  # whole, and not read all the same
    weights.unlink()
    told(words(command, "llama"), "llama/pytorch_model.bin", "no safetensors")
    pickled.unlink()
    told(words(command, "llama"), "llama", "no model.safetensors")


@pytest.mark.parametrize("command", ONE_OF_THEM)
@pytest.mark.parametrize("damage", ["empty", "no JSON", "no object", "nested"])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_tokenizer(folder, command, damage, name):
    ANY[damage](folder / "runs/a0/model" / name)
    told(words(command, "runs/a0"), "runs/a0/model/", name)


OF_RUN = ANY | {
    "no run": without("run"),
    "no seed": without("run", "seed"),
    "no task": without("run", "task"),
    "no variant": without("run", "variant"),
    "a seed in words": changed(run={**RUN, "seed": "zero"}),
    "options in a list": changed(run={**RUN, "options": [1]}),
}
NAMED = OF_RUN | {
    "no such task": changed(run={**RUN, "task": "pylip"}),
    "no such option": changed(run={**RUN, "options": {"depth": 3}}),
    "a bad option": changed(run={**RUN, "options": {"length": "long"}}),
}


LIMITS = [("limits", damage) for damage in OF_RUN]  # which reads a text, whatever the task was


@pytest.mark.parametrize(
    ("command", "damage"), [(c, d) for c in ("view", "insight") for d in NAMED] + LIMITS
)
def test_run_of_a_model(folder, command, damage):
    NAMED[damage](folder / "runs/a0/run.json")
    told([command, "runs/a0"], "runs/a0/run.json")


@pytest.mark.parametrize("damage", [*ANY, "no run", "no key"])
def test_run_to_go_on_with(folder, damage):
    (ANY | {"no run": without("run"), "no key": without("key")})[damage](
        folder / "runs/a0/run.json"
    )
    told([*TRAIN, "--out", "runs/a0"], "runs/a0/run.json")


RECORDS = ANY | {
    "no test": without("test"),
    "no value": without("test", "value"),
    "no chance": without("chance"),
    "no seed": without("run", "seed"),
    "a value in words": changed(test={"value": "good", "loss": 1.0, "levels": {}, "n": 3}),
    "a curve of numbers": changed(curve=[1, 2]),
}


@pytest.mark.parametrize("damage", RECORDS)
def test_record_of_a_finished_run(folder, damage):
    RECORDS[damage](folder / "runs/a0/record.json")
    told([*TRAIN, "--out", "runs/a0"], "runs/a0/record.json")


SHEETS = ANY | {f"no {key}": without(key) for key in ("version", "family", "sizes", "layers")} | {
    "no rules": without("rules"),
    "layers in words": changed(layers=["first"]),
    "a layer too many": changed(layers=[0, 7]),
    "sizes in a list": changed(sizes=[1]),
    "rules of another kind": changed(rules={"k": "many"}),
    "no such rule": changed(rules={"kay": 2}),
}  # fmt: skip


@pytest.mark.parametrize("command", ONE_OF_THEM)
@pytest.mark.parametrize("damage", SHEETS)
def test_sheet_of_an_adapter(folder, command, damage):
    SHEETS[damage](folder / "adapter/swarm.json")
    told([*words(command, "llama"), "--adapter", "adapter"], "adapter/swarm.json")


@pytest.mark.parametrize("command", OF_A_MODEL)
@pytest.mark.parametrize("damage", BYTES_OF)
def test_weights_of_an_adapter(folder, command, damage):
    BYTES_OF[damage](folder / "adapter/swarm.safetensors")
    told([*words(command, "llama"), "--adapter", "adapter"], "adapter/swarm.safetensors")


SUITES = ANY | {f"no {key}": without(key) for key in ("name", "baseline", "rule", "trials")} | {
    "another rule": changed(rule={"luck": 1}),
    "trials in words": changed(trials="all"),
}  # fmt: skip
ROWS = {k: v for k, v in ANY.items() if k != "empty"} | {
    k: v for k, v in RECORDS.items() if k not in ANY
}


@pytest.mark.parametrize("damage", SUITES)
def test_sheet_of_a_suite(folder, damage):
    SUITES[damage](folder / "lab/suite.json")
    told(["lab", "report", "lab", *OUT], "lab/suite.json")


@pytest.mark.parametrize("damage", ROWS)
def test_packed_trials_of_a_suite(folder, damage):
    packed, rows = folder / "lab" / PACKED, folder / "rows.jsonl"
    rows.write_bytes(gzip.decompress(packed.read_bytes()))
    ROWS[damage](rows)
    packed.write_bytes(gzip.compress(rows.read_bytes()))
    told(["lab", "report", "lab", *OUT], "lab/trials.jsonl.gz")


@pytest.mark.parametrize("damage", ["truncated", "garbage", "bit"])
def test_packed_trials_that_are_no_gzip(folder, damage):
    def flipped(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)

    (BYTES_OF | {"bit": flipped})[damage](folder / "lab" / PACKED)
    told(["lab", "report", "lab", *OUT], "lab/trials.jsonl.gz")


@pytest.mark.parametrize("damage", ANY)
def test_costs_of_a_suite(folder, damage):
    ANY[damage](folder / "lab" / "costs.json")
    told(["lab", "report", "lab", *OUT], "lab/costs.json")


@pytest.mark.parametrize("damage", [*ANY, "no name", "no claims", "claims of numbers"])
def test_claims_of_a_bundle(folder, damage):
    (folder / "many").mkdir()
    (folder / "lab").rename(folder / "many" / "lab")
    path = folder / "many" / "claims.json"
    path.write_text(json.dumps({"name": "b", "claims": []}))
    more = {"no name": without("name"), "no claims": without("claims"),
            "claims of numbers": changed(claims=[1])}  # fmt: skip
    (ANY | more)[damage](path)
    told(["lab", "report", "many", *OUT], "many/claims.json")


@pytest.mark.parametrize("damage", [*ANY, "no machine", "no rows", "rows of numbers", "no n"])
def test_runs_of_the_benchmark(folder, damage):
    more = {
        "no machine": without("machine"), "no rows": without("rows"),
        "rows of numbers": changed(rows=[1]), "no n": changed(rows=[{"work": "x"}]),
    }  # fmt: skip
    (ANY | more)[damage](folder / "bench.json")
    told(["bench", "report", "bench.json"], "bench.json")


@pytest.mark.parametrize(
    "args",
    [
        ("demo", "--out", "bench.json"),
        ("demo", "--out", "bench.json/new"),
        ("view", "runs/a0", "--text", "a", "--out", "bench.json/page.html"),
        ("insight", "runs/a0", "--out", "bench.json/new"),
        ("limits", "runs/a0", "--out", "bench.json"),
        ("eval", "runs/a0", "--tasks", "sst2", "--out", "bench.json/new"),
        ("lab", "report", "lab", "--out", "bench.json"),
        ("lab", "show", "quick", "--out", "bench.json"),
        (*TRAIN, "--out", "bench.json"),
        ("bench", "report", "bench.json", "--into", "no.md"),
    ],
    ids=lambda args: " ".join(args[:2]),
)  # fmt: skip
def test_a_place_that_cannot_be_written(folder, args):
    told(args, "no.md" if "no.md" in args else "bench.json")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that root cannot write")
def test_a_folder_that_refuses(folder):
    told(["demo", "--out", "/proc/new/folder"], "/proc/new")


@pytest.fixture
def _full(folder):
    """Files end at 20 kB: what writes more has no room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_full")
def test_a_full_disk(folder):
    """Checkpoints are larger than that; safetensors has an error of its own for it."""
    line = told(
        [*FULL, "--steps", "1", "--out", "runs/full"],
        "runs/full",
        "cannot write the checkpoint of step 1",
        "room on the disk",
    )
    assert "expected" in line


@pytest.mark.usefixtures("_full")
def test_a_disk_that_is_full_at_the_end(folder, monkeypatch):
    monkeypatch.setattr("ascender.train.checkpoint.save", lambda *given: None)
    told([*FULL, "--steps", "1", "--out", "runs/full"], "runs/full/model")


def test_a_damaged_checkpoint_is_passed_over(folder):
    args = [*FULL, "--steps", "2", "--save-every", "1"]
    assert run(*args, "--out", "runs/c").exit_code == 0
    (folder / "runs/c/record.json").unlink()
    last = folder / "runs/c/checkpoints/step-00000002"
    for name, damage in (("state.json", without("curve")), ("model.safetensors", truncated)):
        damage(last / name)
        done = run(*args, "--out", "runs/c", "--resume")
        assert done.exit_code == 0, done.stderr
        assert f"step-00000002/{name}" in done.stderr
        assert "resuming from step 1" in done.stderr
        (folder / "runs/c/record.json").unlink()


def test_a_bug_shows_its_traceback(monkeypatch, folder):
    def broken(*given, **more):
        raise KeyError("oops")

    monkeypatch.setattr("ascender.demo.five_tokens", broken)
    assert isinstance(run("demo").exception, KeyError)


@pytest.mark.parametrize("how", ["--traceback", "ASCENDER_DEBUG"])
def test_a_traceback_for_who_asks(how, folder, monkeypatch):
    if how.isupper():
        monkeypatch.setenv(how, "1")
    args = ["--traceback"] if how.startswith("-") else []
    done = CliRunner().invoke(app, [*args, "view", "no/such/place", "--text", "a"])
    assert isinstance(done.exception, FileNotFoundError)


def test_what_counts_as_expected():
    assert errors.message(ValueError("a\n  b")) == "a b"
    assert errors.message(TypeError("k = 'a'; expected an int")) == "k = 'a'; expected an int"
    assert errors.message(TypeError("unsupported operand")) is None
    assert errors.message(KeyError("a")) is None
    assert errors.message(OSError(28, "No space left on device", "a.json")) == (
        "a.json: No space left on device"
    )
    assert "not enough memory" in errors.message(RuntimeError("can't allocate memory: 9 bytes"))


def test_a_field_of_the_wrong_type_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"n": "three", "of": [1, 2]}')
    with pytest.raises(Damaged, match=r"a.json: 'n' is \"three\", not a whole number; expected it"):
        read_json(path, "it", n=int)
    with pytest.raises(Damaged, match=r"a.json: 'm' is missing; expected it"):
        read_json(path, "it", m=int)
    with pytest.raises(Damaged, match=r"a.json.*luck"):
        made_of(DecisionRule, {"luck": 1}, path, "it")
    assert os.listdir(tmp_path) == ["a.json"]
