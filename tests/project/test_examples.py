"""Every example runs as from the command line, as far as a few steps take it, and says so."""

import json
import re
import runpy
import sys
from pathlib import Path

import jaxtyping
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HELPERS = ("console", "llama2c", "shared")
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in HELPERS)
HEADS = [
    "causal_lm", "masked_lm", "sequence_classification", "token_classification", "translation",
]  # fmt: skip
TIME = re.compile(r"\b(seconds|minute|minutes)\b", re.I)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """run(script, *words): what it prints and what it says meanwhile. In this process, in a fresh
    folder; what the examples set in transformers is set back."""
    logging = pytest.importorskip("transformers").utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(tmp_path)

    def run(script, *words):
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *words])
        capsys.readouterr()
        runpy.run_path(str(EXAMPLES / f"{script}.py"), run_name="__main__")
        return capsys.readouterr()

    yield run
    logging.set_verbosity(verbosity)
    if bars:
        logging.enable_progress_bar()
    for name in HELPERS:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_says_what_it_does_and_how_long_it_takes(script, run, capsys):
    with pytest.raises(SystemExit, match="0"):
        run(script, "--help")
    text = capsys.readouterr().out
    about = (EXAMPLES / f"{script}.py").read_text(encoding="utf-8")
    assert about.split('"""')[1].splitlines()[0] in text
    assert TIME.search(text), f"{script}.py --help does not say how long it takes"


def before_and_after(script, said):
    """The two results are on stdout, progress is on stderr."""
    numbers = re.findall(r"^(before|after): +([\d.]+)", said.out, re.M)
    assert [name for name, _ in numbers] == ["before", "after"], script
    assert "step 1/3" in said.err
    assert "left" in said.err
    assert "step 1/3" not in said.out


@pytest.mark.slow
@pytest.mark.parametrize("script", HEADS)
def test_three_steps(script, run):
    for module in ("accelerate", "sklearn"):
        pytest.importorskip(module)
    before_and_after(script, run(script, "--steps", "3"))


def test_retrofit_without_arguments_trains_its_own_model(run, tmp_path):
    pytest.importorskip("accelerate")
    from transformers import AutoModelForCausalLM

    import ascender

    before_and_after("retrofit", run("retrofit", "--steps", "3", "--base-steps", "3"))
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "out/swarm-base")
    ascender.load_adapter(base, tmp_path / "out/swarm")  # what it wrote goes together


def test_eval_gsm8k_on_local_rows(run, tmp_path):
    rows = {
        "gsm8k/main": {"question": "Two and two?", "answer": "2 + 2 = 4\n#### 4"},
        "glue/sst2": {"sentence": "a fine film", "label": 1},
    }
    for folder, row in rows.items():
        (tmp_path / folder).mkdir(parents=True)
        lines = "".join(json.dumps(row) + "\n" for _ in range(8))
        (tmp_path / folder / "train.jsonl").write_text(lines, encoding="utf-8")
    words = ("--data-dir", ".", "--steps", "3", "--batch", "2", "--vocab", "300")
    said = run("eval_gsm8k", *words)
    assert "16 rows" in said.err
    assert "step 2/3" in said.err
    assert "wrote out/gsm8k" in said.out
    assert (tmp_path / "out/gsm8k/config.json").exists()


def test_distributed_on_one_process(run):
    said = run("distributed", "--model", "causal", "token", "--steps", "2")
    assert [len(json.loads(line)["losses"]) for line in said.out.splitlines()] == [2, 2]
    assert "AscenderForCausalLM: 2 steps" in said.err


def test_real_data_leaves_what_is_there_and_names_a_mistyped_set(run, tmp_path, capsys):
    last = tmp_path / "data/imdb/test.jsonl"
    last.parent.mkdir(parents=True)
    last.touch()
    assert "already in data" in run("real_data", "data", "imdb").out
    with pytest.raises(SystemExit, match="2"):
        run("real_data", "data", "imbd")
    assert "imdb" in capsys.readouterr().err.splitlines()[-1]


def test_real_weights_names_what_is_missing(run, capsys):
    with pytest.raises(SystemExit, match="2"):
        run("real_weights", "llama2.data")
    assert "wheel, folder" in capsys.readouterr().err
