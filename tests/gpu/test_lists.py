"""Attention over lists in Triton: numbers in the interpreter, what the compiler makes of it."""

import pytest

pytest.importorskip("triton", reason="triton is not installed; `make test-gpu-offline` does it")

from ascender.kernels.gpu import list_kernels, runs
from support import gpu_interpreted as interpreted
from support.gpu_ahead_of_time import SHARED, needs

# A few times the worst that was measured; gradients of the numbers are sums with cancellation.
OUT = {"float32": 1e-6, "bfloat16": 1e-2}
GRADIENT = {"float32": 5e-4, "bfloat16": 3e-2}


@pytest.mark.parametrize("name", ["lists", pytest.param("more lists", marks=pytest.mark.slow)])
def test_the_kernel_equals_the_definition(name):
    found = interpreted.errors(name)
    assert len(found) == len(interpreted.LISTS[name])
    for case, gaps in found.items():
        dtype = case.split()[-1]
        assert gaps.pop("out") < OUT[dtype], case
        assert max(gaps.values()) < GRADIENT[dtype], (case, gaps)
        if dtype == "float32":
            assert max(gaps[n] for n in ("q", "k", "v")) < 1e-5, (case, gaps)


def test_decoding_from_a_cache_equals_the_definition():
    for case, gaps in interpreted.errors("decode").items():
        assert gaps.pop("as expected"), case
        assert max(gaps.values()) < 1e-6, (case, gaps)


FLOATS = (
    "UNIT", "ZQ", "ZK", "HQ", "HK", "OTHER", "BIAS", "NUM", "DQ", "DK", "DUNIT", "DV", "DZQ", "DZK",
    "DHQ", "DHK", "DOTHER", "DBIAS", "DNUM",
)  # fmt: skip
CALL = {
    "H": 8, "GROUPS": 2, "ZH": 1, "AH": 1, "LH": 1, "DZ": 16, "DA": 16, "BZ": 16, "BA": 16,
    "HAS_UNIT": False, "HAS_OTHER": False, "HAS_BIAS": True, "HAS_NEAR": False, "RAW": False,
    "TIED": False, "TERM": True, "STANDARDISE": True, "LOCAL": False, "CAUSAL": True,
    "CROSS": False, "ALIGN": True, "SEP": True, "COH": True,
}  # fmt: skip
# capability, type, width, |F|, warps, backward → bytes that a thread may spill
BUDGETS = {
    (80, "bf16", 64, 64, 4, False): 0,
    (90, "fp16", 128, 64, 4, False): 0,
    (90, "fp32", 32, 128, 8, False): 64,
    (80, "bf16", 64, 64, 8, True): 0,
    (90, "fp32", 128, 128, 8, True): 64,
    (80, "fp16", 128, 256, 8, True): 128,
}


def compile_with(setting, folder, **changes):
    capability, kind, width, length, warps, backward = setting
    tensors = dict.fromkeys(("Q", "K", "V", "OUT", "GRAD"), f"*{kind}")
    tensors |= dict.fromkeys(FLOATS, "*fp32")
    tensors |= dict.fromkeys(("LIST", "P", "J", "SIZES"), "*i32") | {"NEAR": "*u8"}
    tensors |= dict.fromkeys(("N", "M", "length", "stride_z"), "i32")
    constants = {**CALL, "D": width, "E": width, "BL": length, "BACKWARD": backward, **changes}
    columns = max(16, min(32, 2048 // length))
    return needs(
        list_kernels.attend, capability, tensors, folder, warps=warps, W=columns, **constants
    )


@pytest.mark.parametrize("setting", BUDGETS, ids=str)
def test_it_compiles_within_budget(setting, tmp_path):
    found = compile_with(setting, tmp_path)
    assert found["shared"] <= SHARED[setting[0]]
    assert found["spilled"] <= BUDGETS[setting], found


NO_RULES = {"ALIGN": False, "SEP": False, "COH": False}
OPTIONS = {
    "no rules": {**NO_RULES, "TERM": False, "HAS_BIAS": False},
    "alignment": {**NO_RULES, "ALIGN": True, "HAS_UNIT": True, "HAS_OTHER": True},
    "separation": {**NO_RULES, "SEP": True, "TIED": True, "TERM": False, "LOCAL": True},
    "cohesion": {**NO_RULES, "COH": True, "STANDARDISE": False, "LOCAL": True},
    "cross": {"CROSS": True, "CAUSAL": False, "HAS_BIAS": False, "HAS_NEAR": True},
    "decoding": {"HAS_UNIT": True, "RAW": True},
    "odd widths": {"D": 80, "E": 48, "DZ": 5, "DA": 7},
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_compiles(name, backward, tmp_path):
    """The interpreter accepts what the compiler does not, such as a name that only a branch has."""
    setting = (90, "bf16", 64, 128, 8, backward)
    assert compile_with(setting, tmp_path, **OPTIONS[name])["spilled"] <= 64


def test_every_configuration_is_one_that_was_compiled():
    """The autotuner may choose nothing that this file has not seen."""
    warps = {config.num_warps for config in list_kernels.attend.configs}
    assert warps == {setting[4] for setting in BUDGETS}


def test_sizes_by_head_are_filled_in_by_the_gpu():
    assert runs([4, 4, 4]) == [(4, 3)]
    assert runs((2, 2, 5)) == [(2, 2), (5, 1)]
