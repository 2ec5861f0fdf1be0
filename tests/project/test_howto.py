"""The files that the how-to pages show do what the pages say."""

import re
import sys
from pathlib import Path

import pytest

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
FILE = re.compile(r"^```py\n# (\w+\.py)\n(.*?)^```", re.M | re.S)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """write(page): the files of a page in the current folder, which Python imports from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(page):
        files = dict(FILE.findall((HOWTO / page).read_text("utf-8")))
        for name, text in files.items():
            (tmp_path / name).write_text(text, "utf-8")
        return sorted(files)

    yield write
    sys.modules.pop("my_bias", None)


def test_the_bias_of_the_page_is_one(here):
    import torch

    assert here("own_bias.md") == ["my_bias.py", "my_suite.py"]
    from my_bias import Decay

    torch.manual_seed(0)
    x = torch.randn(2, 11, 12)
    zero, one = Decay(12, 2), Decay(12, 2, start=1.0)
    one.load_state_dict({**zero.state_dict(), "s": one.s})
    _, plain = zero(x, return_parts=True)
    _, parts = one(x, return_parts=True)
    assert torch.equal(plain.weights, plain.base.softmax(-1))
    steps = (torch.arange(11)[:, None] - torch.arange(11)).abs()
    assert torch.allclose(parts.other[0, 0], -torch.log1p(steps.float()))
    assert torch.allclose(zero(x, causal=True)[:, :5], zero(x[:, :5], causal=True), atol=1e-6)


@pytest.mark.parametrize(
    ("page", "file", "variants"),
    [("own_bias.md", "my_suite.py", 4), ("claim.md", "without_separation.py", 3)],
)
def test_the_suite_of_a_page_is_one(page, file, variants, here):
    from ascender.lab import suite

    assert file in here(page)
    found = suite(file)
    assert found.baseline in {run.variant for run in found.runs}
    assert len({run.variant for run in found.runs}) == variants
    assert len(found.runs) == 5 * variants
    assert f"`{found.baseline}`" in (HOWTO / page).read_text("utf-8").replace('"', "`")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "file"), [("own_bias.md", "my_suite.py"), ("claim.md", "without_separation.py")]
)
def test_the_suite_of_a_page_runs(page, file, here):
    """With fewer steps and two seeds."""
    from ascender import lab

    here(page)
    text = (
        Path(file).read_text("utf-8").replace('"steps": 200, "every": 50', '"steps": 4, "every": 2')
    )
    assert '"steps": 4' in text
    Path(file).write_text(text.replace("seeds=5", "seeds=2"), "utf-8")
    result = lab.run(file, "out", workers=1, say=lambda line: None)
    assert result.failures == []
    page = lab.report("out", suite=file, trust_code=True, say=lambda line: None)[-1]
    assert page.name == "index.html"
