"""The controls of flock scope: each sees as many keys a query as it was promised, and only what
chooses them differs."""

import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from ascender.core.visibility import Visibility
from ascender.nn.module import AscenderAttention
from ascender.train import Run, variant

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
try:
    from recipes import same_keys
finally:
    sys.path.pop(0)

B, N, DIM, HEADS = 2, 40, 24, 3
FAR, WINDOW = 6, 2
SMALL = {"hidden": DIM, "layers": 1, "heads": HEADS, "batch": 6, "options": {"length": 32}}
SIZES = f"far={FAR}+window={WINDOW}"


def made(name):
    """(the run, the attention of its layer)"""
    run = Run.of("recall", variant=name, **{**SMALL, "options": {"length": 32, "pairs": [2]}})
    model = run.make_model(run.make_task()).eval()
    run.make_schedule().apply(model, 9, 10)
    return run, next(m for m in model.modules() if m.__class__.__name__ != "Module"
                     and hasattr(m, "attend_heads"))  # fmt: skip


def seen(attention, causal):
    """How many keys each query sees, by head: (B, H, N)."""
    torch.manual_seed(3)
    x = torch.randn(B, N, DIM)
    if isinstance(attention, AscenderAttention):
        flock = attention.flock(attention.call(x, causal=causal))
        return flock.scope.mask(flock.far).sum(-1).expand(B, HEADS, N)
    if hasattr(attention, "visible"):
        vis = Visibility.of(N, N, causal=causal, window=attention.window,
                            n_global=attention.n_global)  # fmt: skip
        return attention.visible(vis).sum(-1).expand(B, HEADS, N)
    parts = attention.parts(attention.call(x, causal=causal))[1]
    return (parts.weights > 0).sum(-1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("what", same_keys(FAR, WINDOW))
def test_as_many_keys_as_promised(what, causal):
    name = same_keys(FAR, WINDOW, causal)[what]
    size = FAR + (1 if causal else 2) * WINDOW + 1
    count = seen(made(name + "+rope")[1], causal)
    inner = slice(16, 28)  # rows with that many keys on every side, no global block
    if what != "blocks":
        assert bool((count[..., inner] == size).all())
        assert int(count.max()) == size
        return
    block = int(name.split("block=")[1].split("+")[0])
    whole = count[..., 4 * block : (N - 2 * block) // block * block].double().mean()
    assert size <= float(whole) < size + block, "the nearest number of whole blocks, not fewer"


def test_random_far_keys_leave_the_rest_as_it_was():
    ours, control = (made(f"{name}+{SIZES}")[1] for name in ("flock", "flock-random"))
    control.load_state_dict(ours.state_dict())
    x = torch.randn(B, N, DIM)
    a, b = (m.flock(m.call(x, causal=True)) for m in (ours, control))
    assert a.h_q.equal(b.h_q)
    assert (b.affinity, b.affinity_term, b.neighbours) == ("query-key", True, "semantic")
    assert a.far.shape == b.far.shape
    outside = b.scope.outside.visible
    assert bool(outside.expand(B, b.far.shape[1], N, N).gather(-1, b.far.clamp_min(0))[b.far >= 0]
                .all())  # fmt: skip
    late = slice(16, None)
    assert float((a.far == b.far)[..., late, :].double().mean()) < 0.5
    same = control.flock(control.call(x, causal=True)).far
    assert torch.equal(b.far, same), "evaluation draws the same keys"
    control.train()
    assert not torch.equal(control.flock(control.call(x, causal=True)).far, same)
    assert control(x, causal=True).shape == x.shape


def test_random_far_keys_do_not_depend_on_the_future():
    control = made(f"flock-random+{SIZES}+k=3")[1]
    x = torch.randn(B, N, DIM)
    other = x.clone()
    other[:, 25:] = torch.randn(B, N - 25, DIM)
    a, b = (control(t, causal=True)[:, :25] for t in (x, other))
    assert torch.allclose(a, b, atol=1e-6)
    visible = made("ascender+k=3")[1]
    assert not torch.allclose(*(visible(t)[:, :25] for t in (x, other)), atol=1e-3)


def test_random_members_of_given_lists():
    """Where a task gives lists, the control has as many members a query, others than given."""
    control = made(f"flock-random+{SIZES}")[1]
    lists = torch.randint(0, N, (N, 4))
    lists[:, 2:] = -1
    lists[5] = -1
    call = control.call(torch.randn(B, N, DIM), neighbours=lists)
    far = control.flock(call).far
    given = made(f"flock+{SIZES}")[1].flock(call).far
    assert torch.equal((far >= 0).sum(-1).expand(B, 1, N), (given >= 0).sum(-1).expand(B, 1, N))


def test_base_scores_choose_the_keys_of_highest_score():
    layer = made("flock-top-scores+far=5")[1]
    x = torch.randn(B, N, DIM)
    flock = layer.flock(layer.call(x))
    score = flock.q @ flock.k.mT
    own = torch.eye(N, dtype=torch.bool)
    best = score.masked_fill(own, -torch.inf).topk(5).indices
    assert torch.equal(best.sort(-1).values, flock.far.sort(-1).values)


def test_rules_and_losses_are_pieces():
    assert variant("flock+rules=none").mute == ("align", "sep", "coh")
    assert variant("flock-no-rules+rules=all").mute == ()
    assert variant("ascender+rules=align,coh").mute == ("sep",)
    run, layer = made("flock-index-loss+far=4+index_loss=0.5+coh_loss=0.1")
    assert (layer.affinity_term, layer.has_index) == (False, True)
    weights = run.config(run.make_task()).loss_weights()
    assert (weights.index, weights.coh, weights.sep) == (0.5, 0.1, 0.0)
    for wrong in ("rules=some", "rules=", "rules=align+coh"):
        with pytest.raises(ValueError, match="rules = "):
            variant(f"flock+{wrong}".replace("align+coh", "align,xyz"))
    for name in ("vanilla", "longformer", "topk"):
        base = "vanilla+topk" if name == "topk" else name
        with pytest.raises(ValueError, match="has no rules; expected one of ascender, shuffled"):
            variant(f"{base}+rules=none")
        with pytest.raises(ValueError, match=r"index_loss = 1 in variant .* has no rules"):
            variant(f"{base}+index_loss=1")
    for text in ("-1", "True", "much"):
        with pytest.raises(ValueError, match=rf"index_loss = {text} .*expected a number ≥ 0"):
            variant(f"flock+index_loss={text}")
    with pytest.raises(ValueError, match="which has index_loss too; expected one of them"):
        Run.of("recall", variant="flock-index-loss", losses={"index": 1.0})


def test_the_index_loss_of_a_variant_trains_the_index():
    run, _ = made("flock-index-loss+far=4+rules=none")
    task = run.make_task()
    model = run.make_model(task).train()
    run.make_schedule().apply(model, 9, 10)
    batch = task.train(0, 0, 4)
    for with_loss in (True, False):
        if not with_loss:
            model.loss_weights = type(model.loss_weights)()
        model.zero_grad()
        model(**task.inputs(batch), labels=batch.labels).loss.backward()
        layer = next(m for m in model.modules() if isinstance(m, AscenderAttention))
        moved = 0.0 if layer.P_k.weight.grad is None else float(layer.P_k.weight.grad.abs().max())
        assert (moved > 0) == with_loss


def test_a_variant_may_find_its_own_neighbours():
    """Lists of the task (a grid here) are not read where the variant says what neighbours go by."""
    size = {"hidden": 16, "layers": 1, "heads": 2}
    batch = None
    for name, lists in (("ascender", True), ("ascender+neighbours=semantic", False),
                        ("flock-top-scores", False), ("vanilla", True)):  # fmt: skip
        task = Run.of("digits", variant=name, **size).make_task()
        batch = task.train(0, 0, 2) if batch is None else batch
        assert ("neighbours" in task.inputs(batch)) == lists
    assert asdict(variant("ascender+neighbours=semantic"))["options"] == {"neighbours": "semantic"}
