"""The C kernels are built safely, and nothing fails where they cannot be."""

import json
import os
import subprocess
import sys

import pytest

from ascender.kernels import build

SCRIPT = """
import json, torch
from ascender import AscenderAttention
from ascender.kernels.build import kernels
torch.manual_seed(0)
layer, x = AscenderAttention(32, 2), torch.randn(2, 9, 32, requires_grad=True)
out = layer(x, causal=True)
out.square().sum().backward()
print(json.dumps([kernels().library is not None, kernels().reason, out.tolist(), x.grad.tolist()]))
"""


def run(**environment):
    """(is there a library, why, out, gradient) of a layer in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True,
        env={**os.environ, **environment}, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return json.loads(done.stdout)


def flat(nested):
    return [x for part in nested for x in flat(part)] if isinstance(nested, list) else [nested]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCENDER_CACHE", str(tmp_path / "cache"))
    build.kernels.cache_clear()
    yield tmp_path / "cache"
    build.kernels.cache_clear()


needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C compiler here")


@needs_compiler
@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        pytest.param(
            {"ASCENDER_NATIVE": "0"}, "ASCENDER_NATIVE=0 turns them off", marks=pytest.mark.slow
        ),
        ({"CC": "no-such-compiler"}, "no C compiler"),
        pytest.param({"CC": "false"}, "false failed", marks=pytest.mark.slow),
        pytest.param({"ASCENDER_CACHE": "/proc/none"}, "no cache folder", marks=pytest.mark.slow),
    ],
)
def test_without_kernels_the_numbers_are_the_same(environment, reason):
    native, _, *expected = run()
    missing, why, *numbers = run(**environment)
    assert native
    assert not missing
    assert reason in why
    assert flat(numbers) == pytest.approx(flat(expected), abs=2e-6)


@needs_compiler
def test_built_once_and_for_the_owner_only(folder, monkeypatch):
    first = build.kernels()
    assert first.library is not None, first.reason
    assert [p.name for p in folder.iterdir()] == [first.path.name]
    assert folder.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    build.kernels.cache_clear()
    assert build.kernels().path == first.path


@needs_compiler
def test_another_source_flag_or_cpu_is_another_file(folder, monkeypatch):
    cc = build.compiler()
    keys = {build._key(cc)}
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-g"))
    keys.add(build._key(cc))
    monkeypatch.setattr(build, "_cpu", lambda: "another")
    keys.add(build._key(cc))
    monkeypatch.setattr(build, "SOURCES", build.SOURCES[:-1])
    keys.add(build._key(cc))
    assert len(keys) == 4


@needs_compiler
def test_a_failed_build_leaves_nothing(folder, monkeypatch):
    monkeypatch.setattr(build, "FLAGS", ("--no-such-flag",))
    assert build.kernels().library is None
    assert "failed" in build.kernels().reason
    assert list(folder.iterdir()) == []


def test_a_folder_that_others_may_write_is_refused(folder):
    folder.mkdir()
    folder.chmod(0o777)
    found = build.kernels()
    assert found.library is None
    assert "may be written by others; expected mode 700" in found.reason


def test_a_damaged_library_is_no_error(folder):
    if build.compiler() is None:
        pytest.skip("no C compiler here")
    folder.mkdir(mode=0o700)
    (folder / f"kernels-{build._key(build.compiler())}.so").write_bytes(b"not a library")
    assert "cannot be loaded" in build.kernels().reason


@needs_compiler
@pytest.mark.slow
def test_no_bad_memory_access(tmp_path):
    """Every kind of call, and decoding, under the address and undefined-behaviour sanitisers."""
    script = tmp_path / "cases.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(build.Path(__file__).parents[1])!r})\n"
        "from ascender.kernels import build\n"
        "build.FLAGS = (*build.FLAGS[:1], '-O1', '-g', *build.FLAGS[2:],\n"
        "    '-fsanitize=address,undefined', '-fno-sanitize-recover=undefined')\n"
        "import torch\n"
        "from support.cases import KINDS, OPTIONS, case, serving\n"
        "from support.laws import gradients, run\n"
        "from ascender import AscenderAttention\n"
        "for kind in KINDS:\n"
        "    for options in OPTIONS:\n"
        "        for size in (11, 33):\n"
        "            gradients(case(kind, options, size).to(torch.float32), 'native')\n"
        "for kind in KINDS:\n"
        "    for backend in serving(kind, dtype=torch.float32):\n"
        "        run(case(kind, 'k-per-head', 33).to(torch.float32), backend)\n"
        "from support.flock_cases import FLOCK_OPTIONS, flocked\n"
        "for kind in KINDS:\n"
        "    for options in FLOCK_OPTIONS:\n"
        "        for size in (11, 33):\n"
        "            gradients(flocked(kind, options, size).to(torch.float32), 'flock')\n"
        "flock = {'scope': 'flock', 'far': 3, 'window': 1, 'affinity_bias': 8}\n"
        "with torch.no_grad():\n"
        "    for options in (\n"
        "        {}, {'geometry': 'shared'}, {'kv_heads': 1, 'position': 'rope'}, flock,\n"
        "        {**flock, 'far': 0}, {**flock, 'kv_heads': 1, 'position': 'rope'},\n"
        "        {**flock, 'far': 50, 'n_global': 2},\n"
        "    ):\n"
        "        layer = AscenderAttention(20, 2, k=3, **options)\n"
        "        cache = layer.new_cache()\n"
        "        x = torch.randn(2, 40, 20)\n"
        "        x[0, 30] = torch.nan\n"
        "        for token in x.split(1, 1):\n"
        "            layer(token, cache=cache)\n"
        "assert build.kernels().library is not None, build.kernels().reason\n"
        "print('clean')\n"
    )
    asan = subprocess.run(
        [build.compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True
    ).stdout.strip()
    environment = {
        **os.environ, "ASCENDER_CACHE": str(tmp_path / "cache"), "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == "clean", done.stderr[-3000:]
