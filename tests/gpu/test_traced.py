"""Forward on fake CUDA tensors, backward on meta tensors: nobody waits for a number, devices do not
meet, and the launches are few, however long the text."""

from types import SimpleNamespace

import pytest
import torch

import ascender
from ascender import AscenderAttention, LossWeights, asc_attention_varlen, collect
from ascender.core.rules import Rules
from ascender.hf import AscenderConfig, AscenderForCausalLM
from ascender.hf.retrofit.sparse_decode import attend_one
from ascender.kernels import gpu
from support import families
from support.gpu_traced import Launches, fake_cuda

pytestmark = pytest.mark.usefixtures("unchecked")
HALF = {"dtype": torch.bfloat16}
FLOCK = {"scope": "flock"}
GLOBALS = {**FLOCK, "window": 8, "n_global": 3}
CASES = {
    "causal": {},
    "full": {"causal": False},
    "padded": {"padded": True},
    "half": HALF,
    "alibi": {"position": "alibi"},
    "alibi in half": {"position": "alibi", **HALF},
    "rotary": {"position": "rope"},
    "learned positions": {"position": "learned"},
    "narrow geometry": {"d_z": 4, "d_a": 4},
    "sizes by head": {"k": [2, 3, 4, 4], "roles": ["align", "sep", "coh", "all"]},
    "reused scores": {"neighbours": "scores"},
    "grouped": {"kv_heads": 2, "position": "rope"},
    "cross": {"cross": True, "causal": False},
    "losses": {"losses": True},
    "losses in half": {"losses": True, **HALF},
    "folded": {"backend": "folded", "losses": True},
    "window": {"window": 64},
    "window and globals": {"window": 64, "n_global": 3, "padded": True},
    "losses in a window": {"window": 16, "losses": True},
    "flock": FLOCK,
    "flock in half": {**FLOCK, "window": 8, **HALF},
    "flock and globals": GLOBALS,
    "flock, grouped": {**FLOCK, "kv_heads": 2, "position": "rope", "far": [4, 8, 4, 4]},
    "flock, padded": {**FLOCK, "padded": True, "causal": False, "affinity_bias": 32},
    "flock across": {**FLOCK, "cross": True, "causal": False},
    "flock, sharpened": {**FLOCK, "normalizer": "ssmax"},
    "flock, sparse weights": {**FLOCK, "normalizer": "topk"},
    "flock with losses": {**GLOBALS, "losses": True},
    "flock in float64": {**FLOCK, "dtype": torch.float64},
    "float64": {"dtype": torch.float64},
    "any mask": {"any_mask": True},
    "dropout": {"dropout": 0.1},
}
# Everything in which each pair of tokens has a number of its own.
BY_PAIR = ("float64", "any mask", "dropout", "flock with losses")
KERNEL = {
    **dict.fromkeys(BY_PAIR, "bmm"),
    **{name: "list_attention" for name in CASES if "flock" in name and name not in BY_PAIR},
    **{name: "bmm" for name in CASES if "window" in name},
    "folded": "_scaled_dot_product_efficient_attention",
    "flock, sparse weights": "list_dot",
    "flock in float64": "bmm",
}


@pytest.fixture(autouse=True)
def with_triton(monkeypatch):
    """Its kernels are operators here: only what they return matters."""
    monkeypatch.setattr(gpu, "has_triton", lambda: True)


@pytest.fixture
def meta_as_gpu(monkeypatch):
    known = torch.is_autocast_enabled
    monkeypatch.setattr(gpu, "on_gpu", lambda t: t.device.type in ("cuda", "meta"))
    monkeypatch.setattr(
        torch, "is_autocast_enabled", lambda *kind: kind != ("meta",) and known(*kind)
    )


def run(device, name, n=500, backward=False):
    """The module's output and the launches of its call."""
    options = dict(CASES[name])
    call = {"causal": options.pop("causal", True)}
    dtype = options.pop("dtype", torch.float32)
    padded, any_mask, cross, losses = (
        options.pop(name, False) for name in ("padded", "any_mask", "cross", "losses")
    )
    torch.set_default_dtype(dtype)
    with torch.device(device):
        module = AscenderAttention(64, 4, **options)
        torch.set_default_dtype(torch.float32)
        x = torch.randn(2, n, 64, dtype=dtype, requires_grad=backward)
        if padded:
            call["mask"] = torch.ones(2, n, dtype=torch.bool)
        if any_mask:
            call["mask"] = torch.ones(2, 1, n, n, dtype=torch.bool)
        if cross:
            call["context"] = torch.randn(2, n + 11, 64, dtype=dtype)
        index = 0.1 if module.has_index else 0.0
        weights = LossWeights(align=0.1, sep=0.1, coh=0.1, index=index) if losses else None
        with Launches() as launches, collect(module, weights or LossWeights()) as collected:
            out = module(x, **call)
            if backward:
                loss = out.float().sum() + collected.total() if losses else out.float().sum()
                loss.backward()
        return out, launches


@pytest.mark.parametrize("name", CASES)
def test_forward_waits_for_nothing(name):
    with fake_cuda(), torch.no_grad():
        out, launches = run("cuda", name)
    assert out.device.type == "cuda"
    assert KERNEL.get(name, "main_pass") in launches.names
    assert not launches.waits


@pytest.mark.parametrize("name", CASES)
def test_backward_waits_for_nothing(name, meta_as_gpu):
    _, launches = run("meta", name, backward=True)
    kernel = KERNEL.get(name, "main_pass")
    backward = {"list_dot": "list_bag_transposed", "bmm": "bmm"}
    assert backward.get(kernel, kernel + "_backward") in launches.names
    assert not launches.waits


# Forward, and forward with backward.
LAUNCHES = {
    "causal": (600, 1700), "flock": (130, 200), "flock and globals": (500, 950),
    "window": (800, 2000),
}  # fmt: skip


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", LAUNCHES)
def test_launches_do_not_grow_with_the_text(name, backward, meta_as_gpu):
    short, long = (len(run("meta", name, n, backward)[1].names) for n in (2000, 32000))
    assert long <= short <= LAUNCHES[name][backward]


@pytest.mark.parametrize("name", [name for name in CASES if name not in BY_PAIR])
def test_nothing_has_a_number_for_every_pair(name, meta_as_gpu):
    """Eight times the tokens need at most eight times the memory, and a little."""
    with torch.no_grad():
        short, long = (run("meta", name, n)[1].largest for n in (2000, 16000))
    assert long <= 10 * short


def test_a_number_for_every_pair_is_noticed(meta_as_gpu):
    with torch.no_grad():
        short, long = (run("meta", "dropout", n)[1].largest for n in (500, 2000))
    assert long > 10 * short


DECODED = {
    "visible": {},
    "grouped": {"kv_heads": 2, "position": "rope"},
    "sizes by head": {"k": [1, 2, 3, 4]},
    "half": HALF,
    "padded": {"padded": True},
    "window and globals": {"window": 64, "n_global": 3},
    "flock": FLOCK,
    "flock, grouped": {**FLOCK, "kv_heads": 2, "position": "rope"},
    "flock, one length": {**FLOCK, "qk_norm": True},
    "flock in half": {**FLOCK, **HALF},
    "flock, padded": {**FLOCK, "padded": True},
    "flock and globals": GLOBALS,
    "flock without far keys": {**GLOBALS, "far": 0},
    "flock, sharpened": {**FLOCK, "normalizer": "ssmax"},
}


@pytest.mark.parametrize("name", DECODED)
def test_decoding_waits_for_nothing(name):
    """A text, then one token, then three at once. In flock scope one token writes a few numbers a
    key, positions and masks: neither keys nor values are copied."""
    options = dict(DECODED[name])
    dtype, padded = options.pop("dtype", torch.float32), options.pop("padded", False)
    with fake_cuda(), torch.no_grad():
        torch.set_default_dtype(dtype)
        with torch.device("cuda"):
            module = AscenderAttention(64, 4, **options)
            torch.set_default_dtype(torch.float32)
            cache = module.new_cache()
            for n in (500, 1, 3):
                x = torch.randn(2, n, 64, dtype=dtype)
                mask = torch.ones(2, n, dtype=torch.bool) if padded else None
                with Launches() as launches:
                    module(x, cache=cache, mask=mask)
                assert not launches.waits
                if "flock" in name and n == 1 and cache.window is None:
                    assert launches.largest < 2 * 8 * len(cache)
    if "flock" in name:
        assert "list_attention" in launches.names


@pytest.mark.parametrize("backward", [False, True])
def test_packed_sequences_wait_for_nothing(backward, meta_as_gpu):
    """With max_seqlen; without it the length of the longest is read. A layer without biases of
    pairs pads to 16 × 700 tokens nothing but h, for the search."""
    x = torch.randn(1, 700, 64, device="meta", requires_grad=backward)
    cu = torch.zeros(17, dtype=torch.int32, device="meta")
    for position, packed in (("rope", True), ("learned", True), ("alibi", False)):
        layer = AscenderAttention(64, 4, position=position, geometry="shared").to("meta")
        with Launches() as launches, torch.set_grad_enabled(backward):
            y = layer(x, causal=True, cu_seqlens=cu, max_seqlen=700)
            if backward:
                y.sum().backward()
        assert y.shape == x.shape
        assert not launches.waits
        assert (launches.largest < 16 * 700 * 64) == packed
    with pytest.raises(Exception, match="meta"):
        layer(x, cu_seqlens=cu)


@pytest.mark.parametrize("options", [{}, FLOCK], ids=["visible", "flock"])
def test_a_model_waits_for_nothing(options, meta_as_gpu):
    """Training and generating with the mask that tokenizers and generate() hand in."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = AscenderForCausalLM(AscenderConfig(**sizes, **options)).to("meta")
    ids, mask = torch.zeros(2, 2, 300, dtype=torch.long, device="meta")
    with Launches() as launches:
        model(ids, attention_mask=mask, labels=ids).loss.backward()
        with torch.no_grad():
            cache = model(ids[:, :-1], attention_mask=mask[:, :-1], use_cache=True).past_key_values
            model(ids[:, -1:], attention_mask=mask, past_key_values=cache)
    assert "embedding_dense_backward" in launches.names
    assert not launches.waits


RETROFITTED = {
    "llama": ({"omega": 0.5}, "main_pass_backward"),
    "mistral": ({"omega": 0.5}, "bmm"),  # has a window
    "modernbert": ({"omega": 0.5}, "main_pass_backward"),  # full, and a window on both sides
    "gpt2": ({**FLOCK, "far": 8, "window": 4}, "list_attention_backward"),
    "roberta": ({**FLOCK, "far": 8, "window": 4}, "list_attention_backward"),
}


@pytest.mark.parametrize("name", RETROFITTED)
def test_a_retrofitted_model_waits_for_nothing(name, meta_as_gpu):
    """The mask matrix that transformers makes is not read. Without attention_mask transformers
    itself reads whether positions are those of packed texts."""
    options, kernel = RETROFITTED[name]
    model = families.make(name)
    ascender.retrofit(model, **options)
    model = model.to("meta")
    ids, mask = torch.ones(2, 2, 300, dtype=torch.long, device="meta")
    with Launches() as launches:
        model(ids, attention_mask=mask, use_cache=False).logits.float().sum().backward()
    assert kernel in launches.names
    assert not launches.waits


def test_a_token_of_a_retrofitted_model_waits_for_nothing(meta_as_gpu):
    """In flock scope, with one list for all heads or one for each."""
    for far, heads in ((8, 1), ([8, 4, 8, 2], 4)):
        index = SimpleNamespace(far=far, window=4, n_global=1, distance_bias=None)
        q, k = (torch.randn(2, h, n, 16, device="meta") for h, n in ((4, 1), (2, 500)))
        h_q, h_k = (torch.randn(2, heads, n, 8, device="meta") for n in (1, 500))
        with torch.no_grad(), Launches() as launches:
            out = attend_one(index, q, k, k, h_q, h_k, None)
        assert out.shape == q.shape
        assert not launches.waits


def test_without_rules_a_stock_kernel_serves(meta_as_gpu):
    """A λ of 0, as a schedule starts: nothing is left that others' kernels lack."""
    q, k, v = torch.randn(3, 1, 4, 500, 16, device="meta", dtype=torch.bfloat16)
    z, h = torch.randn(2, 1, 1, 500, 4, device="meta", dtype=torch.bfloat16)
    off = {"lam_align": 0.0, "lam_sep": 0.0, "lam_coh": 0.0}
    for rules, kernel in ((Rules(), "main_pass"), (Rules(**off), "_scaled_dot_product")):
        with Launches() as launches:
            ascender.asc_attention(q, k, v, z, h, rules=rules, causal=True)
        assert any(name.startswith(kernel) for name in launches.names)
        assert ("main_pass" in launches.names) == (kernel == "main_pass")
        assert not launches.waits


def packed_call(device, backward, **options):
    """asc_attention_varlen on 700 tokens in 16 sequences of at most 700, and its launches."""
    widths = {"q": (4, 16), "k": (2, 16), "v": (2, 16), "z": (1, 5), "h": (1, 5)}
    with torch.device(device):
        leaves = [torch.randn(700, *w, requires_grad=backward) for w in widths.values()]
        cu = torch.zeros(17, dtype=torch.int32)
    with Launches() as launches, torch.set_grad_enabled(backward):
        out = asc_attention_varlen(
            *leaves, cu_seqlens=cu, max_seqlen=700, rules=Rules(k=3), causal=True, **options
        )
        if backward:
            out.sum().backward()
    assert out.shape == (700, 4, 16)
    assert not launches.waits
    return launches


def test_packed_sequences_are_read_where_they_lie(meta_as_gpu):
    """Not padded to a batch of 16 × 700, forward or backward; by folded they are."""
    padded = 16 * 700 * 64
    for backward in (False, True):
        launches = packed_call("meta", backward)
        assert "main_pass" in launches.names
        assert launches.largest < padded
    assert packed_call("meta", False, backend="folded").largest >= padded
    with fake_cuda():
        assert "centre_pass" in packed_call("cuda", False).names


def test_what_reads_a_number_is_noticed(monkeypatch):
    monkeypatch.setattr(gpu, "on_gpu", lambda t: False)
    with fake_cuda(), torch.no_grad(), pytest.raises(Exception, match="_local_scalar_dense"):
        run("cuda", "causal")


def test_a_copy_from_the_host_is_noticed():
    with fake_cuda(), Launches() as launches:
        torch.tensor([1, 2], device="cuda")
    assert launches.waits == ["_to_copy"]
