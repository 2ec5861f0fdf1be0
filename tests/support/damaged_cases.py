"""Commands that read files, ways to damage the files, and the error that is expected."""

import json

from typer.testing import CliRunner

from ascender.cli import app
from ascender.hf.tokens import BYTES

FEW = {"vocab_size": BYTES, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
RUN = {"task": "pylib", "variant": "vanilla", "seed": 0, "options": {}}
NESTED = "[" * 100_000


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "200", "TERM": "dumb"})


def assert_error(args, *names):
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


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def first(path):
    """The object in a file; of rows the first."""
    text = path.read_text()
    return json.loads(text.splitlines()[0] if path.suffix == ".jsonl" else text)


def without(*keys):
    """JSON without a field: without("run", "seed") takes seed out of run."""

    def damage(path):
        content = first(path)
        inner = content
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        path.write_text(json.dumps(content))

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

RECORDS = ANY | {
    "no test": without("test"),
    "no value": without("test", "value"),
    "no chance": without("chance"),
    "no seed": without("run", "seed"),
    "a value in words": changed(test={"value": "good", "loss": 1.0, "levels": {}, "n": 3}),
    "a curve of numbers": changed(curve=[1, 2]),
}
