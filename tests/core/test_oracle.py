"""The oracle against the worked cases in vectors/, and against cases small enough for a pencil."""

import math

import numpy as np
import pytest

from support.oracles import asc_oracle, losses_oracle, visible_oracle
from support.worked_cases import NAMES, VECTORS, in_the_repository, load

TOLERANCE = 1e-10


def errors(data, result):
    """The largest absolute error of out, weights and each part, by name."""
    parts = {key[5:]: key for key in data if key.startswith("part_")}
    named = {"out": "out", "weights": "weights"} | parts
    return {name: float(abs(result[name] - data[key]).max()) for name, key in named.items()}


@in_the_repository
def test_all_vectors_are_here():
    assert [path.stem for path in VECTORS] == NAMES
    assert len(NAMES) == 22


@pytest.mark.parametrize("name", NAMES)
def test_oracle_reproduces_vector(name):
    data, call = load(name)
    error = errors(data, asc_oracle(**call))
    terms = {"base", "align", "sep", "coh", "other", "total"}
    assert set(error) == {"out", "weights", *terms, *(["aff"] if "flock" in name else [])}
    assert max(error.values()) < TOLERANCE, error


@pytest.mark.parametrize("name", NAMES)
def test_visible_oracle_reproduces_vector(name):
    data, _ = load(name)
    meta, (B, N, M) = data["meta"], data["visible"].shape
    pad = meta["pad"] and [[j < length for j in range(M)] for length in meta["pad"]]
    near = () if meta.get("scope") == "flock" else ("window", "n_global")
    masks = {key: meta[key] for key in ("causal", "cross", *near)}
    visible = visible_oracle(N, M, pad=pad, **masks)
    assert np.array_equal(np.broadcast_to(visible, (B, N, M)), data["visible"])


@pytest.mark.parametrize("name", [name for name in NAMES if "flock" in name])
def test_oracle_reproduces_flock(name):
    data, call = load(name)
    assert np.array_equal(asc_oracle(**call)["flock"], data["flock"])


# The comparison can fail: each of these is a mistake somebody has made.


@pytest.mark.parametrize(
    ("name", "mistake", "wrong"),
    [
        ("full", "gate of alignment grows with scatter", {"align"}),
        ("full", "gate of cohesion grows with scatter", {"coh"}),
        ("full", "i is a flockmate of i", {"align", "sep"}),
        ("causal", "only the softmax is masked", {"align", "sep", "coh"}),
        ("given_neighbours", "k cuts the given list", {"align", "sep"}),
        ("local", "scope is visible", {"sep", "coh"}),
        ("decode", "queries are the head of the keys", {"align", "sep", "coh"}),
        ("flock_causal", "far keys among the globals", {"base", "align", "sep", "coh", "aff"}),
        ("flock_causal", "only the softmax is the flock's", {"align", "sep", "coh"}),
        ("flock", "tied affinity", {"base", "align", "sep", "coh"}),
        ("flock", "affinity without its root", {"aff"}),
    ],
)
def test_a_mistake_is_caught(name, mistake, wrong):
    data, call = load(name)
    rule = call["rule"]
    if mistake == "gate of alignment grows with scatter":
        rule["alpha_align"] = -rule["alpha_align"]
    elif mistake == "gate of cohesion grows with scatter":
        rule["alpha_coh"] = -rule["alpha_coh"]
    elif mistake == "i is a flockmate of i":
        call["cross"] = True
    elif mistake == "only the softmax is masked":
        call["other"] = np.where(call["visible"], 0.0, -1e9)[:, None]
        call["visible"] = np.ones_like(call["visible"])
    elif mistake == "k cuts the given list":
        cut = np.arange(call["neighbours"].shape[-1]) >= rule["k"][:, None, None]
        call["neighbours"] = np.where(cut, -1, call["neighbours"])
    elif mistake == "scope is visible":
        call["local_scope"] = "visible"
    elif mistake == "queries are the head of the keys":
        N, M = call["visible"].shape[1:]
        call["visible"] = np.broadcast_to(np.arange(M) <= np.arange(N)[:, None], (2, N, M))
    elif mistake == "far keys among the globals":
        call["n_global"] = 0
    elif mistake == "only the softmax is the flock's":
        call |= {"scope": "visible", "other": np.where(data["flock"], 0.0, -1e9)}
    elif mistake == "tied affinity":
        call["affinity"] = "tied"
    elif mistake == "affinity without its root":
        rule["omega_aff"] = rule["omega_aff"] * math.sqrt(call["h_q"].shape[-1])
    result = asc_oracle(**call)
    seen = data["visible"][:, None] & np.ones_like(result["base"], bool)
    for part in wrong:
        assert abs(result[part] - data[f"part_{part}"])[seen].max() > 1e-3, part
    assert errors(data, result)["out"] > 1e-3


# visible_oracle against masks written by hand: row = query, column = key.


def test_visible_causal():
    assert np.array_equal(visible_oracle(3, 3, causal=True)[0], [[1, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_visible_window():
    assert np.array_equal(
        visible_oracle(5, 5, window=1)[0],
        [
            [1, 1, 0, 0, 0],
            [1, 1, 1, 0, 0],
            [0, 1, 1, 1, 0],
            [0, 0, 1, 1, 1],
            [0, 0, 0, 1, 1],
        ],
    )


def test_visible_window_with_a_global_token():
    """Token 0 sees everybody and everybody sees token 0."""
    assert np.array_equal(
        visible_oracle(5, 5, window=1, n_global=1)[0],
        [
            [1, 1, 1, 1, 1],
            [1, 1, 1, 0, 0],
            [1, 1, 1, 1, 0],
            [1, 0, 1, 1, 1],
            [1, 0, 0, 1, 1],
        ],
    )


def test_visible_causal_window_with_a_global_token():
    """Masks intersect: a global token does not see the future."""
    assert np.array_equal(
        visible_oracle(4, 4, causal=True, window=1, n_global=1)[0],
        [
            [1, 0, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 0],
            [1, 0, 1, 1],
        ],
    )


def test_visible_decode_tail():
    """Two queries against five keys stand at positions 3 and 4."""
    assert np.array_equal(
        visible_oracle(2, 5, causal=True)[0],
        [
            [1, 1, 1, 1, 0],
            [1, 1, 1, 1, 1],
        ],
    )
    assert np.array_equal(
        visible_oracle(2, 5, causal=True, window=1, n_global=1)[0],
        [
            [1, 0, 1, 1, 0],
            [1, 0, 0, 1, 1],
        ],
    )


def test_visible_padding():
    """Padding hides keys, on either side; a padded query still looks at the real ones."""
    pad = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 0]], bool)
    assert np.array_equal(
        visible_oracle(3, 3, causal=True, pad=pad),
        [
            [[1, 0, 0], [1, 1, 0], [1, 1, 0]],
            [[0, 0, 0], [0, 1, 0], [0, 1, 1]],
            [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
        ],
    )


def test_visible_cross():
    pad = np.array([[1, 0, 1]], bool)
    assert np.array_equal(visible_oracle(2, 3, pad=pad, cross=True), [[[1, 0, 1], [1, 0, 1]]])
    with pytest.raises(ValueError, match="no p"):
        visible_oracle(2, 3, causal=True, cross=True)


# Three tokens and a pencil: with wide kernels every w is 1 and every number below is exact.

PENCIL_RULE = {
    "omega_align": 0, "omega_sep": 0, "omega_coh": 0, "alpha_align": 1, "alpha_coh": 0,
    "tau_sep": 1e9, "tau_coh": 1e9, "delta": 0.5, "kappa": 4, "tau_score": 1, "k": 2,
    "lam_align": 1, "lam_sep": 1, "lam_coh": 1,
}  # fmt: skip


def pencil(visible=None, **changes):
    """q = 0; k = h = e1, e1, e2; z = 0, 3, 6; v = 1, 2, 3: attention is uniform over V(i)."""
    q, k = np.zeros((1, 1, 3, 2)), np.array([[[[1, 0], [1, 0], [0, 1]]]])
    z, v = np.array([[[[0], [3], [6]]]]), np.array([[[[1], [2], [3]]]])
    visible = np.ones((1, 3, 3), bool) if visible is None else visible
    return asc_oracle(q, k, v, z, k, z, k, PENCIL_RULE | changes, visible), z


def test_pencil_local_quantities_and_gates():
    result, _ = pencil()
    r = np.sqrt(0.5)
    assert result["members"] == [[[[1, 2], [0, 2], [0, 1]]]]
    assert np.allclose(result["u"][0, 0], [[r, r], [r, r], [1, 0]])
    assert np.allclose(result["var_align"][0, 0], [0.5, 0.5, 0])
    assert np.allclose(result["gamma_align"][0, 0], 1 / (1 + np.exp([0.5, 0.5, 0])))
    assert np.allclose(result["rho"], 2)
    assert np.allclose(result["eta"], 0.5)
    assert np.allclose(2 * result["phi"][0, 0], [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert np.allclose(result["c"], 3)
    assert np.allclose(result["var_coh"], 6)
    assert np.allclose(result["out"], 2)


def test_pencil_losses():
    """L_coh = (9 + 0 + 9)/3. L_sep = (½/3 + ½/3 + 0)/3. u_2 = e1 and ū_2 = u_0 = u_1."""
    result, z = pencil()
    r = np.sqrt(0.5)
    expected = {"coh": 6, "sep": 1 / 9, "align": 2 * (1 - r) / 3}
    assert losses_oracle(result, z) == pytest.approx(expected)
    # Without row 2: L_sep is (½/3 + ½/3)/2 and L_align the (1 − r)/2 of rows 0 and 1.
    expected = {"coh": 6, "sep": 1 / 6, "align": (1 - r) / 2}
    assert losses_oracle(result, z, valid=[[True, True, False]]) == pytest.approx(expected)


def test_pencil_causal_losses_skip_rows_without_heading():
    """u_0 does not exist, so neither does ū_1; row 2 has N_2 = {0, 1}, u_2 = u_1 = e1."""
    result, z = pencil(visible_oracle(3, 3, causal=True))
    expected = {"coh": (0 + 4.5 / 2 + 6) / 3, "sep": (0 + 0.5 / 2 + 0) / 3, "align": 0}
    assert losses_oracle(result, z) == pytest.approx(expected)


def test_ties_go_to_the_lower_index():
    result, _ = pencil(k=1)
    assert result["members"] == [[[[1], [0], [0]]]]


def test_empty_row_is_zero():
    visible = np.array([[[1, 1, 1], [0, 0, 0], [0, 0, 1]]], bool)
    result, z = pencil(visible)
    for name, value in result.items():
        if name not in ("members", "far", "cross"):
            assert np.isfinite(value).all(), name
            assert not value[0, 0, 1].any(), name
    assert result["members"][0][0] == [[1, 2], [], []]
    assert all(np.isfinite(loss) for loss in losses_oracle(result, z).values())


def test_shared_geometry_and_shared_neighbours_broadcast():
    """One z and h for all heads is the same as H equal copies; so is a list (B,N,K)."""
    _, call = load("given_neighbours")
    H = call["q"].shape[1]
    for key in ("z_q", "z_k", "h_q", "h_k"):
        call[key] = call[key][:, :1]
    call["neighbours"] = call["neighbours"][:, 0]
    one = asc_oracle(**call)
    for key in ("z_q", "z_k", "h_q", "h_k"):
        call[key] = np.repeat(call[key], H, axis=1)
    call["neighbours"] = np.repeat(call["neighbours"][:, None], H, axis=1)
    assert np.array_equal(one["out"], asc_oracle(**call)["out"])


@pytest.mark.parametrize("scale", [0.0, 1e4])
@pytest.mark.parametrize("name", ["cross", "padded", "local_causal"])
def test_extreme_inputs_stay_finite(name, scale):
    _, call = load(name)
    for key in ("q", "k", "v", "z_q", "z_k", "h_q", "h_k"):
        call[key] = call[key] * scale
    result = asc_oracle(**call)
    assert all(np.isfinite(value).all() for key, value in result.items() if key != "members")
    assert np.allclose(result["weights"].sum(-1), 1)
