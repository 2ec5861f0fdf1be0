"""torch.compile: every head is one graph, and gives what it gives without."""

import subprocess
import sys

import pytest

from support.hf_cases import HEADS

# In a process of its own, since the checks of shapes do not compile.
COMPILED = """
import torch
from support.hf_cases import inputs, make, states

def equal(head, a, b):
    torch.testing.assert_close(states(head, a), states(head, b), atol=1e-5, rtol=1e-4)

for head, fields, backend in {cases}:
    model = make(head, num_hidden_layers=1, **fields)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    given, grads = inputs(head), []
    for run in (model, compiled):
        output = run(**given)
        model.zero_grad()
        (states(head, output).square().mean() if head == "model" else output.loss).backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    equal(head, model(**given), output)
    for x, y in zip(*grads, strict=True):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-3)
    if head == "causal":
        with torch.no_grad():
            equal(head, compiled(**given, use_cache=False), model(**given, use_cache=False))
    torch._dynamo.reset()
print("equal")
"""
CASES = [  # "eager" runs the graph as traced; "aot_eager" also makes one of its backward
    [("causal", {}, "aot_eager"), ("token", {}, "eager"), ("model", {}, "eager")],
    [
        ("seq2seq", {}, "eager"),
        ("sequence", {"coh_loss": 0.1}, "eager"),
        ("masked", {"position": "t5", "attention": "vanilla"}, "aot_eager"),
    ],
]


def test_every_head_is_here():
    assert {head for cases in CASES for head, *_ in cases} == set(HEADS)


@pytest.mark.slow
@pytest.mark.parametrize("cases", CASES, ids=["first", "second"])
def test_compiled_equals_eager(cases, request):
    run = subprocess.run(
        [sys.executable, "-c", COMPILED.format(cases=cases)],
        cwd=request.path.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.stdout.strip().endswith("equal"), run.stderr[-2000:]
