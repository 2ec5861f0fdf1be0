"""Calls on a GPU that is not there: tensors with shapes and devices only.

Fake CUDA tensors raise where the host reads a number and where devices meet; autograd needs a real
CUDA for its threads, so backward runs on meta tensors, which raise too, and are taken for a GPU's.
"""

import ctypes
from contextlib import contextmanager
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

CUDA, META = 1, 14  # c10::DeviceType
VIEWS = {  # and "device", a question
    "alias", "as_strided", "chunk", "detach", "device", "diagonal", "expand", "lift_fresh",
    "movedim", "narrow", "permute", "reshape", "select", "slice", "split", "split_with_sizes",
    "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "_reshape_alias",
    "_unsafe_view",
}  # fmt: skip


def _stand_in():
    """torch without CUDA has no guard for its devices: that of meta, which does nothing, serves."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib/libc10.so"))
    guards = (ctypes.c_void_p * (META + 1)).in_dll(
        library, "_ZN3c104impl26device_guard_impl_registryE"
    )
    guards[CUDA] = guards[CUDA] or guards[META]


@contextmanager
def fake_cuda():
    """Inside, device="cuda" makes fake tensors."""
    if not torch.backends.cuda.is_built():
        _stand_in()
    with FakeTensorMode():
        yield


READS = {
    "_local_scalar_dense", "equal", "is_nonzero", "item", "masked_select", "nonzero", "unique_dim",
    "_unique2", "unique_consecutive",
}  # fmt: skip


class Launches(TorchDispatchMode):
    """Counts the operators that are no views: about as many kernels would be launched. `waits`: of
    these the ones for which the host waits, since it reads numbers or copies to another device.
    `largest`: the size of the largest result."""

    def __init__(self):
        super().__init__()
        self.names, self.waits, self.largest = [], [], 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = str(operator).split(".")[1]
        out = operator(*args, **(kwargs or {}))
        copied = {"_to_copy": (args[0], out), "copy_": args[:2]}.get(name, ()) if args else ()
        if name in READS or len({t.device.type for t in copied}) > 1:
            self.waits.append(name)
        if name not in VIEWS:
            self.names.append(name)
            if isinstance(out, torch.Tensor):
                self.largest = max(self.largest, out.numel())
        return out
