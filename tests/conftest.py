"""Shapes in signatures are checked here and only here: the hook must precede the first import."""

import hypothesis
import jaxtyping
import pytest
import torch

CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
jaxtyping.install_import_hook("ascender", CHECKER)

torch.set_num_threads(1)  # pytest-xdist has a process for every core
hypothesis.settings.register_profile(
    "few", deadline=None, max_examples=25, derandomize=True, database=None
)
hypothesis.settings.load_profile("few")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return request.param


@pytest.fixture
def unchecked(monkeypatch):
    """As a user has it: without the shape checker, whose own errors would come first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
