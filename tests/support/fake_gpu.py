"""A GPU for benchmarks where there is none: tensors stay on the CPU, and torch.cuda's events and
counters are these. A call takes as long as this clock says."""

from types import SimpleNamespace

from ascender.measure.device import Gpu


class FakeCuda:
    """Of torch.cuda. `clock` is milliseconds of its stream: an event, when it is recorded, is one
    `step` later. `allocated` goes up and down as a test says."""

    def __init__(self, step=2.0):
        self.step, self.clock, self.synchronized = step, 0.0, 0
        self.allocated = self.highest = 10_000_000

    def Event(self, enable_timing):
        assert enable_timing
        return FakeEvent(self)

    def synchronize(self, device=None):
        self.synchronized += 1

    def reset_peak_memory_stats(self, device):
        self.highest = self.allocated

    def max_memory_allocated(self, device):
        return self.highest

    def allocate(self, amount):
        self.allocated += amount
        self.highest = max(self.highest, self.allocated)


class FakeEvent:
    def __init__(self, cuda):
        self.cuda, self.at, self.done = cuda, None, False

    def record(self):
        self.cuda.clock += self.cuda.step
        self.at = self.cuda.clock

    def synchronize(self):
        self.done = True

    def elapsed_time(self, later):
        """Of torch.cuda.Event: an error where the GPU may not have reached it."""
        assert later.done, "elapsed_time before synchronize"
        return later.at - self.at


class FakeGpu(Gpu):
    """Facts and clocks as of an A100 that draws more power after every look."""

    looks = 0

    def facts(self):
        return {"gpu": "NVIDIA A100", "gpu_memory_gb": 42.4}

    def state(self):
        type(self).looks += 1
        return {"pstate": "P0", "power.draw": str(60 + type(self).looks)}


def fake_gpu(step=2.0):
    """On the tensors of the CPU."""
    return FakeGpu("cpu", cuda=FakeCuda(step))


PROPERTIES = SimpleNamespace(
    name="NVIDIA A100", total_memory=42_400_000_000, major=8, minor=0, multi_processor_count=108,
    uuid="11-22",
)  # fmt: skip
