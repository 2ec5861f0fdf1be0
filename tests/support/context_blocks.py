"""A small causal model, trained on whole sequences or on blocks over two processes."""

from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ascender import AscenderAttention
from ascender.nn.context_parallel import context_parallel, own_block, sum_gradients

VOCAB, DIM, HEADS, B, N = 13, 24, 3, 2, 38
STEPS = {"rope": 3, "float32": 3}  # of the others one
FLOCK = {"scope": "flock", "far": 3, "window": 2, "n_global": 1, "position": "rope", "k": 3}
CASES = {
    "rope": {},
    "no positions": {"position": None},
    "no window": {"window": None, "n_global": 0},
    "distance": {"affinity_bias": 8},
    "far by head": {"far": [3, 0, 5], "affinity_heads": 3},
    "affinity by group": {"heads": 4, "kv_heads": 2, "affinity_heads": 2},
    "grouped": {"kv_heads": 1},
    "tied": {"affinity": "tied"},
    "without term": {"affinity_term": False},
    "local": {"local_scope": "neighbours", "geometry": "shared"},
    "qk_norm": {"qk_norm": True},
    "no rules": {"lam": 0.0},
    "many globals": {"n_global": 22},
    "everyone": {"far": N},
    "visible": {"visible_phase": True},
    "float32": {"dtype": torch.float32},
}


class Block(nn.Module):
    """x + attention(norm(x)), x + mlp(norm(x))."""

    def __init__(self, heads=HEADS, lam=1.0, visible_phase=False, dtype=None, **options):
        super().__init__()
        self.attention = AscenderAttention(DIM, heads, omega=0.6, **{**FLOCK, **options})
        self.attention.visible_phase = visible_phase
        for rule in ("align", "sep", "coh"):
            setattr(self.attention, f"lam_{rule}", lam)
        if self.attention.distance_bias is not None:
            self.attention.distance_bias.data.copy_(torch.linspace(-1, 1, 8))
        self.norms = nn.ModuleList(nn.RMSNorm(DIM) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(DIM, 40), nn.SiLU(), nn.Linear(40, DIM))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x), causal=True)
        return x + self.mlp(self.norms[1](x))


def model(options):
    torch.manual_seed(0)
    blocks = [Block(**options) for _ in range(2)]
    net = nn.Sequential(nn.Embedding(VOCAB, DIM), *blocks, nn.Linear(DIM, VOCAB))
    return net.to(options.get("dtype", torch.double))


def batch(step):
    draw = torch.Generator().manual_seed(step)
    ids = torch.randint(VOCAB, (B, N + 1), generator=draw)
    return ids[:, :-1], ids[:, 1:]


def train(name, split=False):
    """Of a case: the losses of its steps; of the first the gradients, the logits, and what the
    first layers of all processes received."""
    net = model(CASES[name])
    if split:
        context_parallel(net)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-2)
    cut = own_block if split else lambda t: t
    result = {"losses": []}
    for step in range(STEPS.get(name, 1)):
        inputs, targets = (cut(t) for t in batch(step))
        logits = net(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / (B * N)
        optimiser.zero_grad()
        loss.backward()
        total = loss.detach().clone()
        if split:
            sum_gradients(net)
            dist.all_reduce(total)
        if step == 0:
            grads = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
            result |= {"grads": grads, "logits": logits.detach()}
            result["traffic"] = traffic_of(net) if split else None
        result["losses"].append(total.item())
        optimiser.step()
    return result


def traffic_of(net):
    """(index, requests, rows) in bytes of the first layer, in all processes together."""
    own = net[1].attention.traffic
    every = torch.tensor([own.index, own.requests, own.rows])
    dist.all_reduce(every)
    return every.tolist()


def unequal(rank):
    """What a process says whose block has one token more than that of the one before."""
    net = context_parallel(model({}))
    try:
        net(torch.zeros(1, 8 + rank, dtype=torch.long))
    except ValueError as error:
        return str(error)


def language_model(split=False):
    """The logits of a model with positions that are added to the tokens, and a gradient."""
    from ascender.hf import AscenderConfig, AscenderForCausalLM

    torch.manual_seed(0)
    config = AscenderConfig(
        vocab_size=VOCAB, hidden_size=DIM, num_hidden_layers=2, num_attention_heads=HEADS,
        position="sinusoidal",
        attention_options={name: x for name, x in FLOCK.items() if name != "position"},
    )  # fmt: skip
    net = AscenderForCausalLM(config).double()
    inputs, targets = batch(0)
    positions = torch.arange(N)[None]
    if split:
        context_parallel(net)
        inputs, targets, positions = (own_block(t) for t in (inputs, targets, positions))
    logits = net(input_ids=inputs, position_ids=positions).logits
    F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").backward()
    if split:
        sum_gradients(net)
    return logits.detach(), net.get_input_embeddings().weight.grad


def run_language_model(rank, folder, processes):
    with processes_of(rank, folder, processes):
        torch.save(language_model(split=True), f"{folder}/{rank}")


def run(rank, folder, processes):
    """Every case in this process; called by torch.multiprocessing."""
    with processes_of(rank, folder, processes):
        results = {name: train(name, split=True) for name in CASES}
        torch.save({**results, "unequal": unequal(rank)}, f"{folder}/{rank}")


@contextmanager
def processes_of(rank, folder, processes):
    """This process as one of a group."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", processes)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=processes)
    yield
    dist.destroy_process_group()
