"""Where to measure: clocks and memory of a GPU by stand-ins, and what a machine is."""

import os

import pytest
import torch

from ascender.measure import machine, memory
from ascender.measure.device import CPU, WARM_UP, check, find
from ascender.measure.timing import TimingPlan, best, elapsed
from support.fake_gpu import PROPERTIES, fake_gpu

ONCE = TimingPlan(repeats=1, at_least=0.0)


def test_events_measure_what_the_stream_took():
    gpu = fake_gpu(step=2.0)
    assert elapsed(lambda: None, gpu.now()) == 0.002

    def longer():
        gpu.cuda.clock += 5.0

    seconds = best({"a": lambda: None, "b": longer}, ONCE, lambda c: elapsed(c, gpu.now("events")))
    assert seconds == {"a": 0.002, "b": 0.007}


def test_the_wall_clock_of_a_gpu_waits_for_it():
    gpu = fake_gpu()
    assert elapsed(lambda: None, gpu.now("wall")) > 0
    assert gpu.cuda.synchronized == 2, "before and after"


def test_every_device_has_its_clocks():
    assert (CPU.clock(None), fake_gpu().clock(None)) == ("cpu", "events")
    with pytest.raises(ValueError, match=r"unknown clock 'cup' \(did you mean 'cpu'\?\)"):
        CPU.now("cup")
    with pytest.raises(ValueError, match="unknown clock of a GPU 'cpu'; expected one of events, w"):
        fake_gpu().now("cpu")


def test_calls_are_warmed_up_on_a_gpu_only_and_failures_are_kept():
    done = []

    def large():
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 3 GiB")

    calls = {"a": lambda: done.append(1), "large": large}
    assert CPU.warm(calls) == {}
    assert done == []
    gpu = fake_gpu()
    assert gpu.warm(calls) == {"large": "CUDA out of memory."}
    assert len(done) == WARM_UP
    assert gpu.cuda.synchronized == 1

    def wrong():
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        gpu.warm({"wrong": wrong})


def test_memory_of_a_gpu_is_what_a_call_allocated_at_its_peak():
    gpu = fake_gpu()
    gpu.cuda.allocate(60_000_000)
    gpu.cuda.allocate(-40_000_000)  # an older peak

    def call():
        gpu.cuda.allocate(9_000_000)
        gpu.cuda.allocate(-5_000_000)

    assert memory.used(call, there=1_000_000, of=gpu) == {"call": 10.0, "process": 39.0}


def test_memory_of_a_process_by_the_same_function():
    kept = memory.used(lambda: torch.ones(20_000_000), of=CPU)  # too large for a freed block
    assert 50 < kept["call"] < kept["process"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:3"])
def test_a_gpu_that_is_not_there_says_what_was_found(name, monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda command: None)
    with pytest.raises(ValueError, match=f"device = '{name}'; expected cpu, cuda, cuda:1") as error:
        find(name)
    (line,) = str(error.value).splitlines()
    assert f"torch {torch.__version__} is" in line
    assert line.endswith("sees no GPU; there is no nvidia-smi)")


def test_what_is_no_device_is_named():
    with pytest.raises(ValueError, match=r"device = 'gpu'; expected cpu, cuda, cuda:1, … \(Expec"):
        check("gpu")
    with pytest.raises(ValueError, match="device = 'meta'; expected cpu, cuda, cuda:1, …"):
        find("meta")
    assert find("cpu") is CPU


def test_a_machine_has_a_processor_and_memory(monkeypatch, tmp_path):
    assert 0.1 < machine.ram_gb() < 1e5
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: AMD EPYC 9V74\nmodel name\t: second\n")
    monkeypatch.setattr(machine, "CPUINFO", file)
    assert machine.facts()["processor"] == "AMD EPYC 9V74"
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "none")
    assert machine.processor() == machine.platform.processor() or machine.platform.machine()


@pytest.fixture
def smi(monkeypatch, tmp_path):
    """An nvidia-smi that prints and notes what it is asked."""

    def put(said):
        script = tmp_path / "nvidia-smi"
        script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho "{said}"\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return tmp_path / "asked"

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: PROPERTIES)
    return put


def test_a_gpu_is_described(smi):
    asked = smi("P0, 1410, 1215, 1410, 1215, 61.20, 400.00, 34, Enabled, 550.54")
    device = torch.device("cuda:1")
    assert machine.gpu(device)["gpu"] == "NVIDIA A100"
    assert machine.gpu(device)["capability"] == "8.0"
    state = machine.gpu_state(device)
    assert (state["clocks.sm"], state["power.limit"]) == ("1410", "400.00")
    assert "--id=GPU-11-22" in asked.read_text()
    assert ",".join(machine.STATE) in asked.read_text()


def test_an_nvidia_smi_that_fails_says_nothing(smi, monkeypatch):
    smi("NVIDIA-SMI has failed")
    assert machine.gpu_state(torch.device("cuda")) == {}
    monkeypatch.setattr(machine.shutil, "which", lambda command: None)
    assert machine.gpu_state(torch.device("cuda")) == {}
