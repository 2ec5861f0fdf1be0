"""The page of `ascender play` in a real Chromium: its numbers are Python's, and it works."""

import json

import numpy as np
import pytest
import torch

from ascender.core.attention import asc_attention
from ascender.core.rules import Rules
from ascender.insight.play import play
from support.browser import BROWSER_TESTS, PlayTab

pytestmark = BROWSER_TESTS
TERMS = ("base", "align", "sep", "coh", "aff", "other")
D, E, DZ, DA = 6, 5, 3, 4


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("play") / "flock.html"
    play(out=path)
    return path


@pytest.fixture(scope="module")
def page(browser, file):
    """One page for all tests that only compute."""
    found = PlayTab(browser, file)
    yield found
    assert found.troubles == []
    found.context.close()


@pytest.fixture
def seen(browser, file):
    found = PlayTab(browser, file)
    yield found
    assert found.troubles == []
    assert [url for url in found.asked if not url.startswith(("file:", "blob:", "data:"))] == []
    found.context.close()


# Rules and options of a call, by name: what Python takes and what the page is given.
NUMBERS = {
    "omega_align": 0.7, "omega_sep": -0.4, "omega_coh": 1.3, "alpha_align": 0.6, "alpha_coh": 1.7,
    "tau_sep": 1.4, "tau_coh": 0.8, "delta": -0.1, "kappa": 3.0, "tau_score": 1.25, "k": 4,
}  # fmt: skip
CASES = {
    "defaults": ({}, {}),
    "numbers": (NUMBERS, {}),
    "causal": (NUMBERS, {"causal": True}),
    "scores": (NUMBERS, {"neighbours": "scores", "causal": True}),
    "query-key": ({**NUMBERS, "omega_aff": 0.9}, {"affinity": "query-key", "affinity_term": True}),
    "tied affinity": ({**NUMBERS, "omega_aff": -1.5}, {"affinity_term": True}),
    "raw": ({**NUMBERS, "standardise": False}, {}),
    "wide": ({**NUMBERS, "separation_scope": "all", "local_scope": "neighbours"}, {}),
    "flock": (
        {**NUMBERS, "far": 5, "omega_aff": 1.0},
        {"scope": "flock", "window": 1, "n_global": 2, "affinity": "query-key",
         "affinity_term": True, "causal": True},
    ),
    "flock, everyone": ({**NUMBERS, "far": 64}, {"scope": "flock"}),
    "bias": (NUMBERS, {"other": True}),
    "mask": (NUMBERS, {"mask": True}),
    "lists": (NUMBERS, {"lists": True}),
    "rotated": (NUMBERS, {"bare": True}),
    "distance": (
        {**NUMBERS, "omega_aff": 1.0},
        {"affinity": "query-key", "affinity_term": True, "affinity_bias": True, "causal": True},
    ),
}  # fmt: skip


def inputs(seed, N, affinity):
    made = torch.Generator().manual_seed(seed)
    widths = {"q": D, "k": D, "v": E, "z_q": DZ, "h_q": DA, "h_k": DA}
    made = {
        n: torch.randn(1, 1, N, w, generator=made, dtype=torch.float64) for n, w in widths.items()
    }
    if affinity == "tied":
        made["h_k"] = made["h_q"]
    return made


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("seed", "N"), [(0, 13), (1, 29)])
def test_the_pages_terms_are_those_of_the_definition(page, name, seed, N):
    numbers, kinds = CASES[name]
    streams = inputs(seed, N, kinds.get("affinity", "tied"))
    torch.manual_seed(seed)
    options, given = dict(kinds), {}
    rows = {n: t[0, 0].flatten().tolist() for n, t in streams.items()}
    if options.pop("other", False):
        options["other"] = torch.randn(1, 1, N, N, dtype=torch.float64)
        given["other"] = options["other"].flatten().tolist()
    if options.pop("mask", False):
        seenby = torch.rand(1, 1, N, N) < 0.6
        seenby[..., 3, :] = False  # a row that sees nothing
        options["mask"] = seenby
        given["V"] = seenby.flatten().int().tolist()
    if options.pop("lists", False):
        lists = torch.randint(-1, N, (1, 1, N, 5))
        options["neighbours"] = lists
        given["neighbours"] = lists.masked_fill(lists < 0, 65535).flatten().tolist()
    if options.pop("bare", False):
        options["bare"] = torch.randn(1, 1, N, D, dtype=torch.float64)
        given["bare"] = options["bare"].flatten().tolist()
    if options.pop("affinity_bias", False):
        from ascender.core.affinity import by_distance

        options["affinity_bias"] = torch.randn(8, dtype=torch.float64)
        given["distance"] = by_distance(options["affinity_bias"], True).tolist()
    out, parts = asc_attention(**streams, rules=Rules(**numbers), return_parts=True, **options)
    call = {
        "N": N, "d": D, "e": E, "dz": DZ, "da": DA, "q": rows["q"], "k": rows["k"],
        "v": rows["v"], "z": rows["z_q"], "hq": rows["h_q"], "hk": rows["h_k"],
        "causal": options.get("causal", False), "affinity": options.get("affinity", "tied"),
        "neighbours": options.get("neighbours", "semantic"), **given,
    }  # fmt: skip
    if "neighbours" in given:
        call["neighbours"] = given["neighbours"]
    rules = {
        **numbers, "scope": options.get("scope", "visible"), "window": options.get("window", 0),
        "globals": options.get("n_global", 0),
    }  # fmt: skip
    got = page.tab.evaluate(
        """([call, rules]) => {
        for (const n of ["q", "k", "v", "z", "hq", "hk", "bare"])
          if (call[n]) call[n] = Float64Array.from(call[n]);
        const f = attend(call, rules), list = (t) => [...t];
        const terms = Object.fromEntries(Object.entries(f.terms).map(([n, t]) => [n, list(t)]));
        return { ...terms, total: list(f.total), weights: list(f.weights), out: list(f.out) };
    }""",
        [call, rules],
    )
    for term in (*TERMS, "weights"):
        true = getattr(parts, term)[0, 0].flatten().numpy()
        assert np.abs(np.array(got[term]) - true).max() < 1e-4, term
    total = np.where(parts.weights[0, 0].flatten() > 0, got["total"], 0)
    assert np.abs(total - parts.total[0, 0].flatten().numpy()).max() < 1e-4
    assert np.abs(np.array(got["out"]) - out[0, 0].flatten().numpy()).max() < 1e-4
    assert np.abs(np.array(got["align"])).max() > 1e-3


def scene_call(tab):
    """The call that the page shows, as asc_attention takes it, with what the page makes of it."""
    got = tab.evaluate("""() => {
        const c = scene.call, w = { q: c.d, k: c.d, v: c.e, z: c.dz, hq: c.da, hk: c.da };
        const arrays = Object.fromEntries(Object.keys(w).map((n) => [n, [...c[n]]]));
        return { N: c.N, w, arrays, rules: found.rules, causal: c.causal,
                 weights: [...found.weights], out: [...found.out] };
    }""")
    tensors = {
        name: torch.tensor(a, dtype=torch.float64).view(1, 1, got["N"], got["w"][name])
        for name, a in got["arrays"].items()
    }
    renamed = {"z": "z_q", "hq": "h_q", "hk": "h_k"}
    return {renamed.get(n, n): t for n, t in tensors.items()}, got


@pytest.mark.parametrize("scene", ["birds", "kinds", "words"])
def test_what_is_drawn_is_the_definition_also_after_steps_and_sliders(seen, scene):
    tab = seen.tab
    tab.select_option("#choose-scene", scene)
    seen.frame()
    for _ in range(3):
        tab.click("#step")
    tab.evaluate("() => { nudge(1, 30, -20); nudge(3, -50, 10); }")
    seen.slide("omega_coh", 1.75)
    seen.slide("omega_aff", -0.5)
    tab.check("#set-flock_scope")
    seen.frame()
    streams, got = scene_call(tab)
    known = {f for f in Rules.__dataclass_fields__}
    rules = Rules(**{n: v for n, v in got["rules"].items() if n in known})
    assert rules.omega_coh == 1.75
    out, parts = asc_attention(
        **streams, rules=rules, scope="flock", affinity_term=True, return_parts=True
    )
    assert np.abs(np.array(got["weights"]) - parts.weights.flatten().numpy()).max() < 1e-4
    assert np.abs(np.array(got["out"]) - out.flatten().numpy()).max() < 1e-4
    assert seen.tab.evaluate("() => scene.steps") == 3


def test_the_five_words_are_those_of_the_readme(seen):
    seen.tab.select_option("#choose-scene", "words")
    seen.frame()
    row = seen.tab.evaluate("() => [...found.weights.slice(0, 5)]")
    assert np.round(row, 2).tolist() == [0.33, 0.18, 0.13, 0.23, 0.13]


def test_steps_do_what_the_rules_are_called(seen):
    """Headings align, near duplicates part, the flock coheres; with all ω = 0 nothing moves."""
    tab = seen.tab
    measured = """() => {
        const c = scene.call, N = c.N, keys = headingKeys(c);
        let s = 0;
        for (let e = 0; e < 2 * N; e++) s += (found.u[e] * keys[e]) / N;
        const d = [...distances(c)].filter((x, e) => e % (N + 1)).sort((a, b) => a - b);
        const near = Math.sqrt(d[Math.floor(d.length / 100)]);
        return { aligned: s, near, dense: mean([...found.rho]) };
    }"""
    for name, better in (("align", "aligned"), ("sep", "near"), ("coh", "dense")):
        tab.click("#reset")
        tab.click("#off")
        seen.frame()
        before = tab.evaluate(measured)
        still = tab.evaluate("() => { step(0.3); return [...scene.call.z] }")
        assert still == tab.evaluate("() => [...scene.start.z]")
        seen.slide(f"omega_{name}", 2)
        tab.evaluate("() => { for (let t = 0; t < 12; t++) step(0.1) }")
        after = tab.evaluate(measured)
        assert after[better] > 1.1 * before[better], name


@pytest.mark.parametrize("variant", ["ascender", "vanilla"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_models_logits_are_pythons(page, variant, seed):
    from safetensors.torch import load_file, safe_open

    from ascender.hf import AscenderConfig, AscenderForTokenClassification
    from ascender.insight.play.build import MODELS
    from ascender.tasks import task

    with safe_open(MODELS, "pt") as stored:
        record = json.loads(stored.metadata()["record"])
    data = task(record["task"], **record["options"])
    size = record["settings"]
    config = AscenderConfig(
        vocab_size=data.vocab_size, vector_size=data.vector_size, num_labels=data.num_labels,
        hidden_size=size["hidden"], num_hidden_layers=size["layers"], position="none",
        num_attention_heads=size["heads"], attention=variant,
    )  # fmt: skip
    made = AscenderForTokenClassification(config).eval()
    prefix = f"{variant}-{seed}/"
    weights = {
        n.removeprefix(prefix): t.float()
        for n, t in load_file(MODELS).items()
        if n.startswith(prefix)
    }
    made.load_state_dict(weights)
    batch = next(iter(data.eval_batches("test", 25)))
    with torch.no_grad():
        true = made(**task_inputs(data, batch)).logits[:, -1].numpy()
    got = page.tab.evaluate(
        """([name, episodes]) => episodes.map(([pictures, ids]) =>
            [...forward(Digits.models[name], pictures, ids).logits])""",
        [f"{variant}-{seed}", [
            [x.tolist(), ids.tolist()]
            for x, ids in zip(batch.inputs["vectors"], batch.inputs["input_ids"], strict=True)
        ]],
    )  # fmt: skip
    assert np.abs(np.array(got) - true).max() < 1e-3
    assert np.abs(true).max() > 1


def task_inputs(data, batch):
    return dict(data.inputs(batch))
