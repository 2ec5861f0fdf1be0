"""Do flocks find groups of tokens? Measured beside z and the neighbours, in flock scope only."""

import torch

from ascender.insight.capture import capture
from ascender.insight.grouping import groups_found, sources
from ascender.train import Run

SMALL = {"hidden": 24, "layers": 2, "heads": 2}


def made(name):
    run = Run.of("grouping", variant=name, **SMALL)
    task = run.make_task()
    model = run.make_model(task).eval()
    run.make_schedule().apply(model, 9, 10)
    return model, task, task.train(0, 0, 3)


def test_flocks_are_a_source_in_flock_scope_only():
    for name, has in (("flock+far=4", True), ("flock-no-rules+far=4", True), ("ascender", False),
                      ("vanilla", False)):  # fmt: skip
        model, task, batch = made(name)
        found = groups_found(model, [(task.inputs(batch), task.clusters(batch))])
        assert (("flock", 0) in {(g.of, g.layer) for g in found}) == has, name


def test_the_graph_of_a_flock_is_its_lists():
    model, task, batch = made("flock+far=4+k=2")
    layers = capture(model, **task.inputs(batch))[1]
    N = next(iter(batch.inputs.values())).shape[1]
    of = {name: t for name, t, _ in sources(layers, (), N)}
    flock = of["flock", 0]
    assert set(flock.unique().tolist()) <= {0.0, 1.0}, "one list for all heads"
    assert bool((flock.sum(-1) == 5).all()), "itself and four far keys"
    assert bool((flock.diagonal(dim1=-2, dim2=-1) == 1).all())
    near = of["neighbours", 0] > 0
    assert bool((flock[near] > 0).all()), "neighbours are members of the flock"


def test_found_groups_are_found():
    """Flocks that are the groups themselves are told apart perfectly; random ones are not."""
    model, task, batch = made("flock+far=6")
    groups = task.clusters(batch)
    B, N = groups.shape
    same = groups[:, :, None] == groups[:, None]
    rank = same.double() + 0.1 * torch.rand(B, N, N)
    rank.diagonal(dim1=-2, dim2=-1).fill_(-1)
    lists = rank.topk(int(same.sum(-1).min()) - 1).indices[:, None]
    found = groups_found(model, [({**task.inputs(batch), "neighbours": lists}, groups)])
    (own,) = [g for g in found if (g.of, g.layer) == ("flock", 0)]
    assert float(own.nmi.mean()) > 0.9
    (free,) = [
        g for g in groups_found(model, [(task.inputs(batch), groups)])
        if (g.of, g.layer) == ("flock", 0)
    ]  # fmt: skip
    assert float(free.nmi.mean()) < float(own.nmi.mean())
