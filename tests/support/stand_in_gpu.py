"""A GPU that is not there, for the tests of `pytest -m cuda`: tensors whose device is "meta" have
their numbers on the CPU, and calls take the path of CUDA without Triton. Where a tensor of the CPU
meets one of them, it is an error as on CUDA."""

from contextlib import contextmanager
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from ascender.core.backends import stock_kernels
from ascender.kernels import gpu
from support import kernels_by_definition as definition

DEVICE = "meta"
COPIES = ("_to_copy", "copy_", "index", "index_put", "index_put_", "_index_put_impl_")


class OnGpu(torch.Tensor):
    """A tensor on the stand-in; `numbers` are on the CPU."""

    @staticmethod
    def __new__(cls, numbers):
        return torch.Tensor._make_wrapper_subclass(
            cls, numbers.shape, strides=numbers.stride(), storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype, device=DEVICE,
        )  # fmt: skip

    def __init__(self, numbers):
        self.numbers = numbers

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        return run(operator, args, kwargs or {})

    def __repr__(self):
        return f"OnGpu({self.numbers!r})"


class Factories(TorchDispatchMode):
    """Also what makes tensors on the device."""

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        return run(operator, args, kwargs or {})


def run(operator, args, kwargs):
    """An operator on the numbers; what comes out is where it would be."""
    name = str(operator).split(".")[1]
    tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
    there = any(isinstance(t, OnGpu) for t in tensors)
    empty = [t for t in tensors if t.device.type == DEVICE and not isinstance(t, OnGpu)]
    assert not empty, f"{name}: a tensor without numbers; was it made from a list used as an index?"
    if there and name not in COPIES:
        here = [t for t in tensors if not isinstance(t, OnGpu) and t.ndim]
        assert not here, f"{name}: tensors of the CPU meet those of a GPU"
    device = kwargs.get("device")
    there = there if device is None else torch.device(device).type == DEVICE
    if device is not None:
        kwargs = {**kwargs, "device": "cpu"}
    if name == "copy_":
        there = isinstance(args[0], OnGpu)
    numbers = tree_map_only(OnGpu, lambda t: t.numbers, (args, kwargs))
    out = operator(*numbers[0], **numbers[1])
    if name == "_to_copy" and there and out is numbers[0][0]:
        out = out.clone()
    if not there:
        return out
    known = {id(t.numbers): t for t in tensors if isinstance(t, OnGpu)}  # of what is done in place
    return tree_map_only(torch.Tensor, lambda t: known[id(t)] if id(t) in known else OnGpu(t), out)


@contextmanager
def stand_in_gpu(patch):
    """Inside, device="meta" is the stand-in, with kernels of others by their definition."""
    known = torch.is_autocast_enabled
    patch.setattr(gpu, "on_gpu", lambda t: t.device.type == DEVICE)
    patch.setattr(gpu, "has_triton", lambda: False)
    patch.setattr(stock_kernels, "aten", SimpleNamespace(**definition.OPERATORS))
    patch.setattr(torch, "is_autocast_enabled", lambda *kind: kind != (DEVICE,) and known(*kind))
    tensor = torch.tensor  # with device="meta" it does not ask the mode
    patch.setattr(torch, "tensor", lambda data, *, device="cpu", **kind: (
        OnGpu(tensor(data, **kind)) if torch.device(device).type == DEVICE
        else tensor(data, device=device, **kind)
    ))  # fmt: skip
    with Factories():
        yield
