"""The main pass, separation and the centre pass in Triton: numbers in the interpreter, what the
compiler makes of them."""

import pytest

pytest.importorskip("triton", reason="triton is not installed; `make test-gpu-offline` does it")

import torch

from ascender.kernels.gpu import (
    centre_pass,
    centre_pass_kernels,
    main_pass,
    main_pass_backward_kernels,
    main_pass_kernels,
    moved_mass_kernels,
    power_of_two,
    running_sums,
    running_sums_kernels,
)
from support import gpu_interpreted as interpreted
from support.gpu_ahead_of_time import SHARED, needs

# A few times the worst that was measured. With separation p has two numbers of half precision.
OUT = {"float32": 1e-6, "bfloat16": 1e-2, "float16": 2e-3}
MOVED = {"float32": 1e-6, "bfloat16": 2e-5, "float16": 1e-6}
GRADIENT = {"float32": 1e-5, "bfloat16": 3e-2, "float16": 3e-3}


@pytest.mark.parametrize("name", ["passes", pytest.param("more passes", marks=pytest.mark.slow)])
def test_the_main_pass_equals_its_definition(name):
    found = interpreted.errors(name)
    assert len(found) == len(interpreted.PASSES[name])
    for case, gaps in found.items():
        words, dtype = case.split(", ")
        assert gaps.pop("out") < (MOVED if "sep" in words else OUT)[dtype], case
        assert gaps.pop("second") < 1e-6, case  # log-sum-exp
        assert gaps.pop("third") < 1e-6, case  # the mass that is left
        assert max(gaps.values()) < GRADIENT[dtype], (case, gaps)


@pytest.mark.parametrize("name", ["fused", pytest.param("more fused", marks=pytest.mark.slow)])
def test_the_backend_equals_the_definition(name):
    found = interpreted.errors(name)
    assert len(found) == len(interpreted.FUSED[name])
    for case, gaps in found.items():
        half = case.endswith("bfloat16")
        assert gaps.pop("out") < (1e-2 if half else 2e-6), case
        assert max(gaps.values()) < (5e-2 if half else 5e-5), (case, gaps)


def test_losses_equal_the_definition():
    found = interpreted.errors("losses")
    assert len(found) == len(interpreted.LOSSES)
    for case, gaps in found.items():
        half = case.endswith("bfloat16")
        assert max(gaps.pop(n) for n in ("align", "sep", "coh")) < (1e-3 if half else 2e-6), case
        assert max(gaps.values()) < (2e-2 if half else 5e-5), (case, gaps)


def test_the_centre_pass_equals_its_definition():
    found = interpreted.errors("centres")
    assert set(found) == set(interpreted.CENTRES)
    for case, gaps in found.items():
        assert max(gaps.pop("out"), gaps.pop("second")) < 1e-6, case
        assert max(gaps.values()) < 5e-5, (case, gaps)


def test_packed_sequences_equal_the_definition():
    found = interpreted.errors("packed")
    assert set(found) == {*interpreted.PACKED, "a layer"}
    for case, gaps in found.items():
        assert max(gaps.values()) < 5e-6, (case, gaps)
    assert max(interpreted.errors("running sums")["sums"].values()) < 1e-6


KERNELS = {
    "forward": main_pass_kernels.forward,
    "keys": main_pass_backward_kernels.keys,
    "queries": main_pass_backward_kernels.queries,
    "move": moved_mass_kernels.move,
    "move back": moved_mass_kernels.move_back,
    "centre": centre_pass_kernels.forward,
    "centre keys": centre_pass_kernels.keys,
    "centre queries": centre_pass_kernels.queries,
    "running": running_sums_kernels.running,
}
OF_TYPE = ("Q", "A", "C", "K", "U", "Z", "V")
FLOATS = (
    "X", "Y", "SCALE", "RATE", "LSE", "LEFT", "BIAS", "DELTA", "OUT", "DQ", "DA", "DC", "DX", "DK",
    "DU", "DZ_", "DY", "DV", "DBIAS", "DRATE",
)  # fmt: skip
CALL = {
    "H": 8, "G": 2, "ZH": 1, "YH": 1, "MH": 1, "LH": 1, "XH": 1, "DZ": 16, "R": 2, "CAUSAL": True,
    "ALIGN": True, "NARROW": True, "HAS_MASK": False, "PACKED": False, "UP": False, "OWN": True,
}  # fmt: skip
# kernel, capability, type, width, (tile: queries, keys, warps, stages) → bytes that may be spilled
BUDGETS = {
    ("forward", 80, "bf16", 64, (64, 64, 4, 2)): 0,
    ("forward", 90, "fp16", 128, (128, 64, 8, 2)): 0,
    ("forward", 80, "fp32", 64, (32, 32, 8, 1)): 32,
    ("forward", 90, "fp32", 128, (32, 32, 8, 1)): 64,
    ("keys", 80, "bf16", 64, (32, 64, 8, 2)): 96,
    ("keys", 90, "bf16", 64, (32, 64, 4, 2)): 96,
    ("keys", 80, "fp32", 64, (16, 32, 8, 2)): 64,
    ("keys", 80, "bf16", 128, (32, 64, 8, 2)): 320,
    ("keys", 80, "bf16", 128, (32, 32, 8, 2)): 32,
    ("keys", 90, "fp32", 128, (16, 32, 8, 2)): 800,
    ("queries", 80, "bf16", 64, (64, 32, 8, 2)): 32,
    ("queries", 90, "bf16", 64, (128, 32, 8, 2)): 32,
    ("queries", 80, "fp32", 64, (32, 16, 8, 2)): 64,
    ("queries", 80, "bf16", 128, (64, 32, 8, 2)): 128,
    ("queries", 90, "fp32", 128, (32, 16, 8, 2)): 800,
    ("move", 80, "bf16", 64, (16, 0, 4, 1)): 0,
    ("move", 90, "fp32", 128, (32, 0, 8, 1)): 32,
    ("move back", 80, "bf16", 64, (32, 0, 8, 1)): 0,
    ("move back", 90, "fp32", 128, (16, 0, 4, 1)): 128,
    ("running", 80, "fp32", 16, (256, 0, 4, 2)): 0,
    ("running", 90, "fp32", 16, (64, 0, 2, 2)): 0,
    ("centre", 80, "fp32", 16, (64, 32, 4, 2)): 0,
    ("centre", 90, "fp32", 16, (32, 32, 4, 2)): 0,
    ("centre keys", 80, "fp32", 16, (32, 32, 4, 2)): 0,
    ("centre keys", 90, "fp32", 16, (32, 64, 4, 2)): 0,
    ("centre queries", 80, "fp32", 16, (64, 32, 4, 2)): 0,
    ("centre queries", 90, "fp32", 16, (32, 32, 4, 2)): 0,
}


def compile_with(setting, folder, **changes):
    name, capability, kind, width, (m, n, warps, stages) = setting
    kernel = KERNELS[name]
    names = getattr(kernel, "fn", kernel).arg_names
    tensors = dict.fromkeys(OF_TYPE, f"*{kind}") | dict.fromkeys(FLOATS, "*fp32")
    tensors |= {"GRAD": "*fp32" if "centre" in name else f"*{kind}", "MASK": "*u8"}
    tensors |= dict.fromkeys(("LIST", "CU"), "*i32") | {"least": "fp32", "BEGINS": "*u8"}
    tensors |= dict.fromkeys(("N", "M", "length", "chunks", "width"), "i32")
    call = {**CALL, "D": width, "E": width, "SPLIT": kind != "fp32", "BM": m, "BN": n, **changes}
    call |= {"B" + w[-1]: power_of_two(call[w]) for w in ("D", "DZ", "E")}
    call |= {"BR": power_of_two(max(1, call["R"]), 1), "BW": m, "REVERSE": True}
    tensors = {name: kind for name, kind in tensors.items() if name in names}
    found = needs(kernel, capability, tensors, folder, warps=warps, stages=stages, **call)
    assert found["shared"] <= SHARED[capability], found
    return found["spilled"]


@pytest.mark.parametrize("setting", BUDGETS, ids=str)
def test_it_compiles_within_budget(setting, tmp_path):
    assert compile_with(setting, tmp_path) <= BUDGETS[setting]


CHANGES = {
    "no rules": {"ALIGN": False, "NARROW": False, "R": 0, "SPLIT": False, "OWN": False},
    "odd widths": {"D": 80, "E": 48, "DZ": 5, "HAS_MASK": True, "PACKED": True, "CAUSAL": False},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", KERNELS)
def test_every_option_compiles(name, change, tmp_path):
    """The interpreter accepts what the compiler does not, such as a name that only a branch has."""
    setting = next(setting for setting in BUDGETS if setting[0] == name)
    narrow = {"D": 7} if "centre" in name and change == "odd widths" else {}
    compile_with(setting, tmp_path, **{**CHANGES[change], **narrow})


def test_every_configuration_is_one_that_was_compiled():
    """The autotuner may choose nothing that this file has not seen."""
    seen = {(name, tile) for name, *_, tile in BUDGETS}
    for name, kernel in KERNELS.items():
        for config in kernel.configs:
            tile = config.kwargs
            of = (tile["BW"], 0) if "BW" in tile else (tile["BM"], tile.get("BN", 0))
            assert (name, (*of, config.num_warps, config.num_stages)) in seen


@pytest.fixture
def launched(monkeypatch):
    """Launches as on a GPU, through the autotuner, up to what would run there: by kernel the
    configurations that were tried. Every argument must be named."""
    tried = {}
    for name, kernel in KERNELS.items():

        def bench(*args, config, name=name, **given):
            tried.setdefault(name, []).append(config)
            return float(config.num_warps)

        def run(*args, grid, warmup, name=name, kernel=kernel, **given):
            names = [*kernel.arg_names[: len(args)], *given]
            assert len(names) == len(set(names))
            assert set(names) - {"num_warps", "num_stages", "num_ctas"} == set(kernel.arg_names)
            assert all(size > 0 for size in grid(given))
            tried.setdefault(name, [])

        monkeypatch.setattr(kernel, "_bench", bench)
        monkeypatch.setattr(kernel, "cache", {})
        monkeypatch.setattr(kernel.fn, "run", run)
    return tried


WORDS = ("causal align narrow ranks grouped sep", "packed", "padded")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("words", WORDS)
def test_launches_of_the_main_pass_are_complete(words, dtype, launched):
    """Three products of TF32 need more registers than large tiles leave: float32 has its own."""
    of = main_pass.Pass(**interpreted.pass_inputs(words, dtype))
    inputs = (*(None if t is None else t.detach() for t in of.inputs()), of.causal, of.longest)
    out, lse, _ = main_pass._forward(*inputs)
    main_pass._backward(out.to(dtype), lse, out, lse, *inputs)
    moved = {"move", "move back"} if "sep" in words else set()
    assert set(launched) == {"forward", "keys", "queries"} | moved
    tiles = {config.kwargs["BM"] for config in launched["forward"]}
    assert tiles == ({32} if dtype == torch.float32 else {64, 128})


@pytest.mark.parametrize("packed", [False, True])
def test_launches_of_the_other_passes_are_complete(packed, launched):
    x, y, rate = torch.randn(1, 2, 7, 5), torch.randn(1, 1, 7, 5), torch.ones(2)
    cu = torch.tensor([0, 4, 7], dtype=torch.int32) if packed else None
    mask = None if packed else torch.ones(1, 1, 7, dtype=torch.bool)
    given = (x, y, rate, mask, cu, True, 4)
    mean, lse = centre_pass._forward(*given, False)
    centre_pass._backward(mean, lse, lse, *given)
    begins = torch.tensor([True, False, True])
    running_sums._run(torch.randn(2, 3, 5), begins, packed)
    assert set(launched) == {"centre", "centre keys", "centre queries", "running"}
