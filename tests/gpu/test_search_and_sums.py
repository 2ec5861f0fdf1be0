"""Top-k and sums over lists in Triton: numbers in the interpreter, and the compiler's budgets."""

import pytest

pytest.importorskip("triton", reason="triton is not installed; `make test-gpu-offline` does it")

from ascender.kernels.gpu import list_sums_kernels, top_k_kernels
from support import gpu_interpreted as interpreted
from support.gpu_ahead_of_time import SHARED, needs


def test_sums_and_their_gradients():
    for name, gaps in interpreted.errors("sums").items():
        assert max(gaps.values()) < 1e-6, (name, gaps)


def test_the_best_keys_are_those_of_the_definition():
    found = interpreted.errors("top-k")
    assert set(found) == set(interpreted.TOP_K)
    assert all(case == {"rows": 0.0, "none": 0.0} for case in found.values()), found


INTEGERS = (
    "first",
    "N",
    "rows",
    "M",
    "room",
    "mask_b",
    "mask_h",
    "mask_n",
    "R",
    "K",
    "w",
    "S",
    "total",
)
SEARCH = {
    "H": 1, "XH": 1, "YH": 1, "D": 16, "BD": 16, "W": 32, "HAS_MASK": True, "HAS_BIAS": True,
    "BOUNDED": False, "CAUSAL": True, "WINDOW": -1, "GLOBALS": 2, "CROSS": False, "BEYOND": 4,
}  # fmt: skip


def check(kernel, capability, pointers, folder, spilled=0, integers=INTEGERS, **options):
    tensors = {**dict.fromkeys(integers, "i32"), **pointers}
    names = getattr(kernel, "fn", kernel).arg_names
    tensors = {name: kind for name, kind in tensors.items() if name in names}
    found = needs(kernel, capability, tensors, folder, **options)
    assert found["shared"] <= SHARED[capability]
    assert found["spilled"] <= spilled, found


@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("tile", top_k_kernels.TILES, ids=str)
def test_block_maxima_compile_within_budget(tile, capability, tmp_path):
    pointers = dict.fromkeys(("X", "Y", "BIAS", "OUT"), "*fp32")
    pointers |= {"P": "*i32", "J": "*i32", "MASK": "*u8", "blocks": "i32"}
    options = dict(zip(("BM", "BN", "warps"), tile, strict=True))
    check(top_k_kernels.block_max, capability, pointers, tmp_path, **SEARCH, **options)


@pytest.mark.parametrize(("K", "warps"), [(16, 4), (64, 8)])
def test_the_choice_compiles_within_budget(K, warps, tmp_path):
    pointers = {"X": "*fp32", "Y": "*fp32", "BIAS": "*fp32", "P": "*i32", "J": "*i32"}
    pointers |= {"MASK": "*u8", "BLOCK": "*i32", "OUT": "*i32"}
    options = {**SEARCH, "K": K, "BM": 2048 // (32 * K), "warps": warps}
    integers = [name for name in INTEGERS if name != "K"]
    check(top_k_kernels.pick, 80, pointers, tmp_path, integers=integers, **options)


@pytest.mark.parametrize("rows", list_sums_kernels.ROWS)
@pytest.mark.parametrize("name", ["dot", "bag", "bag_transposed"])
def test_sums_compile_within_budget(name, rows, tmp_path):
    pointers = dict.fromkeys(("X", "Y", "P", "OUT"), "*fp32")
    pointers |= dict.fromkeys(("FLAT", "ORDER", "ROW", "FIRST"), "*i64")
    kernel = getattr(list_sums_kernels, name)
    check(kernel, 80, pointers, tmp_path, warps=4, HAS_P=True, BR=rows, BW=256)
