"""Cases of any shape and any mask, drawn by hypothesis."""

from dataclasses import replace

import torch
from hypothesis import strategies as st

from support.cases import case


@st.composite
def shapes(draw, scope="visible"):
    """Sizes from 1 up, k beyond M, any padding up to all of it, every mask. (In one dimension
    all angles of h tie, and two keys may cancel to a heading of 0/0.) In flock scope any number
    of far keys too, and every affinity."""
    size = {axis: draw(st.integers(1, most)) for axis, most in
            {"B": 2, "H": 2, "N": 7, "d": 3, "e": 4, "z": 3, "k": 9}.items()}  # fmt: skip
    size["a"], own = draw(st.integers(2, 4)), draw(st.sampled_from(["1", "H"]))
    size["k"] = 1 if size["d"] == 1 else size["k"]
    cross = draw(st.booleans())
    size |= {"1": 1, "M": draw(st.integers(1 if cross else size["N"], 9))}
    masks = {"cross": cross}
    if not cross:
        masks["causal"] = draw(st.booleans())
        masks["window"] = draw(st.none() | st.integers(0, 9))
        masks["n_global"] = draw(st.integers(0, 3)) if masks["window"] is not None else 0
    if draw(st.booleans()):
        n = size["B"] * size["M"]
        pad = draw(st.lists(st.booleans(), min_size=n, max_size=n))
        masks["mask"] = torch.tensor(pad).view(size["B"], 1, 1, -1)
    axes = {"q": "BHNd", "k": "BHMd", "v": "BHMe", "z": f"B{own}Mz", "h": f"B{own}Ma"}
    axes |= {"z_q": f"B{own}Nz", "h_q": f"B{own}Na"} if cross else {}
    flock, fixed = {}, {}
    if scope == "flock":
        flock = {"scope": scope, "affinity": draw(st.sampled_from(["tied", "query-key"]))}
        flock["affinity_term"] = draw(st.booleans())
        fixed["far"] = draw(st.integers(1 if cross else 0, 9))
        axes |= {"h_q": f"B{own}Na"} if flock["affinity"] == "query-key" else {}
    g = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    x = case("full")
    leaves = {name: torch.randn([size[axis] for axis in spelt], generator=g, dtype=torch.float64)
              for name, spelt in axes.items()}  # fmt: skip
    numbers = {name: t[: size["H"]] for name, t in x.numbers.items()}
    fixed |= {"k": size["k"], "standardise": draw(st.booleans())}
    fixed["local_scope"] = draw(st.sampled_from(["visible", "neighbours"]))
    return replace(x, leaves=leaves, numbers=numbers, masks=masks, fixed=fixed, flock=flock)
