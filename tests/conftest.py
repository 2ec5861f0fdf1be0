"""Shapes in signatures are checked here and only here: the hook must precede the first import."""

import os

# Some virtual machines announce AMX and then forbid it: bfloat16 products of oneDNN fail or crash.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # read when torch is imported

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


def pytest_addoption(parser):
    parser.addoption("--cuda", action="store_true", help="collect the tests of CUDA, GPU or not")
    where = "run them on a stand-in (support/stand_in_gpu.py)"
    parser.addoption("--stand-in-gpu", action="store_true", help=where)


def pytest_generate_tests(metafunc):
    """`device`: the CPU; CUDA too where there is a GPU, so that nothing is skipped without one."""
    if "device" in metafunc.fixturenames:
        devices = ["cpu"]
        stand_in = metafunc.config.getoption("stand_in_gpu")
        if torch.cuda.is_available() or metafunc.config.getoption("cuda") or stand_in:
            name = "meta" if stand_in else "cuda"
            devices.append(pytest.param(name, marks=pytest.mark.cuda, id="cuda"))
        metafunc.parametrize("device", devices)


def pytest_collection_modifyitems(config, items):
    """Backends that a device does not have are no tests there."""
    from support.cases import runs_on

    kept, left = [], []
    for item in items:
        given = getattr(item, "callspec", None)
        names = ("device", "backend", "dtype")
        asked = [given.params.get(name) for name in names] if given else [None]
        taken = any(value is None for value in asked) or runs_on(*asked)
        (kept if taken else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


@pytest.fixture(autouse=True)
def _stand_in_gpu(request, monkeypatch):
    called = getattr(request.node, "callspec", None)
    if called is None or called.params.get("device") != "meta":
        yield
        return
    from support.stand_in_gpu import stand_in_gpu

    with stand_in_gpu(monkeypatch):
        yield


@pytest.fixture
def unchecked(monkeypatch):
    """As a user has it: without the shape checker, whose own errors would come first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="module")
def unchecked_module():
    """The same for all tests of a file, where the checks would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def group(tmp_path):
    """A process group of this process alone."""
    import torch.distributed as dist

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()
