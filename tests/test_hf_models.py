"""The Hugging Face models: a config that says what is wrong with it, Llama as the reference, every
head trained, saved and loaded, and the laws of the attention in a whole model."""

import copy
import json
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn

from ascender.baselines import ATTENTIONS
from ascender.hf import (
    PRESETS,
    AscenderConfig,
    AscenderForCausalLM,
    AscenderForConditionalGeneration,
    AscenderModel,
)
from ascender.losses import collect
from ascender.neighbours import graph, grid
from ascender.normalizers import NORMALIZERS
from ascender.positions import POSITIONS
from ascender.schedule import LossWeights, Schedule
from hf_cases import HEADS, OPTIONS, B, D, H, M, N, V, config, fits, inputs, make, states, tokens

# --- the config


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hidden_size": 0}, "hidden_size = 0; expected an int of at least 1"),
        ({"num_attention_heads": 5}, "num_attention_heads = 5; expected a divisor of hidden_size"),
        ({"num_key_value_heads": 3}, "num_key_value_heads = 3; expected a divisor of num_att"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers = 'two'"),
        ({"coh_loss": "some"}, "coh_loss = 'some'"),
        ({"intermediate_size": 0}, "intermediate_size = 0"),
        ({"dropout": 1.0}, r"dropout = 1.0; expected a number in \[0, 1\)"),
        ({"norm_eps": -1.0}, "norm_eps = -1"),
        ({"sep_loss": -0.1}, "sep_loss = -0.1"),
        ({"lam": {"sep": 2.0}}, r"lam\['sep'\] = 2.0"),
        ({"lam": {"seperation": 1.0}}, r"lam\['seperation'\]"),
        ({"share_neighbours": 0}, "share_neighbours = 0"),
        ({"attention": "asender"}, r"unknown attention 'asender' \(did you mean 'ascender'"),
        ({"position": "aliby"}, "unknown position 'aliby'.*alibi"),
        ({"normalizer": "sofmax"}, "unknown normalizer 'sofmax'.*softmax"),
        ({"cross_attention": "graph"}, "cross_attention = 'graph'.*expected one of ascender"),
        ({"attention_options": {"kk": 3}}, "no option 'kk'"),
        ({"attention_options": {"k": 0}}, "k"),
        ({"attention_options": {"geometry": "flat"}}, "unknown geometry 'flat'"),
        ({"position_options": {"bas": 3}}, "no option 'bas'.*base"),
        ({"normalizer_options": {"tempo": 3}}, "tempo"),
        ({"attention": "performer", "position": "t5", "attention_options": {}}, "position 't5'"),
        ({"attention": "linear", "normalizer": "topk", "attention_options": {}}, "normalizer"),
        ({"vocabsize": 3}, "unknown field 'vocabsize'.*vocab_size"),
        ({"atention": "vanilla"}, "unknown field 'atention'"),
    ],
)
def test_a_bad_value_is_named(fields, words):
    with pytest.raises(Exception, match=f"(?s){words}"):
        config(**fields)


def test_a_size_is_named():
    assert AscenderConfig.preset("small", vocab_size=99).hidden_size == 256
    assert AscenderConfig.preset("small", vocab_size=99).vocab_size == 99
    with pytest.raises(ValueError, match=r"unknown preset 'tinny' \(did you mean 'tiny'"):
        AscenderConfig.preset("tinny")


def test_sizes_grow():
    counts = []
    for size in PRESETS:
        with torch.device("meta"):
            counts.append(AscenderForCausalLM(AscenderConfig.preset(size)).num_parameters())
    assert counts == sorted(counts)
    assert 1e6 < counts[0] < 3e6 < 2e8 < counts[-1]


def test_config_survives_json(tmp_path):
    fields = dict(
        attention="ascender", attention_options={"k": [2, 3], "window": 5, "roles": ["sep", "all"]},
        position="rope", position_options={"base": 500.0, "scaling": "linear", "factor": 2.0},
        normalizer="ssmax", normalizer_options={"s": 0.3}, share_neighbours=3, coh_loss=0.25,
        lam={"align": 1.0, "sep": 0.5, "coh": 1.0},
    )  # fmt: skip
    config(**fields).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["model_type"] == "ascender"
    for loaded in (
        AscenderConfig.from_pretrained(tmp_path),
        transformers.AutoConfig.from_pretrained(tmp_path),
    ):
        for name, value in fields.items():
            assert getattr(loaded, name) == value
        module = loaded.make_attention(loaded.make_position())
        assert (module.k, module.window, module.roles) == ((2, 3), 5, ("sep", "all"))
        assert (module.position.base, module.position.factor) == (500.0, 2.0)
        assert module.normalizer.log_s.exp().allclose(torch.tensor(0.3))


def test_fields_of_transformers_are_no_slips():
    known = dict(
        num_labels=3, output_attentions=True, output_hidden_states=True, torch_dtype="float32",
        architectures=["X"], name_or_path="x", attn_implementation="eager", max_length=3,
        problem_type="regression", id2label={0: "a"}, finetuning_task="x", auto_map={},
        tokenizer_class="x", prefix="x", is_encoder_decoder=True, return_dict=True,
        task_specific_params={}, quantization_config=None, transformers_version="5",
    )  # fmt: skip
    for name, value in known.items():
        AscenderConfig(vocab_size=V, hidden_size=D, **{name: value})


def test_a_head_leaves_its_config_alone():
    mine = config()
    before = mine.to_dict()
    for head in HEADS:
        HEADS[head][0](mine)
    assert mine.to_dict() == before
    assert AscenderForCausalLM(mine).config.is_decoder
    assert AscenderForConditionalGeneration(mine).config.is_encoder_decoder


# --- the reference: transformers' Llama


def llama(mine):
    """transformers' Llama with the weights of ours."""
    c = mine.config
    other = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=V, hidden_size=c.hidden_size, num_hidden_layers=c.num_hidden_layers,
            num_attention_heads=c.num_attention_heads, intermediate_size=c.intermediate_size,
            num_key_value_heads=c.num_key_value_heads, rms_norm_eps=c.norm_eps,
            tie_word_embeddings=c.tie_word_embeddings, attn_implementation="eager",
        )
    ).eval()  # fmt: skip
    names = {
        "attention.W_Q": "self_attn.q_proj", "attention.W_K": "self_attn.k_proj",
        "attention.W_V": "self_attn.v_proj", "attention.W_O": "self_attn.o_proj",
        "attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm",
        "mlp.W_gate": "mlp.gate_proj", "mlp.W_up": "mlp.up_proj", "mlp.W_down": "mlp.down_proj",
    }  # fmt: skip

    def theirs(name):
        for a, b in names.items():
            name = name.replace(f".{a}.", f".{b}.")
        return name

    weights = {theirs(name): t for name, t in mine.state_dict().items()}
    other.load_state_dict(weights)
    return other, theirs


@pytest.mark.parametrize("kv", [1, 2, 4])
@pytest.mark.parametrize("tied", [True, False])
def test_vanilla_is_llama(kv, tied):
    mine = make(
        attention="vanilla", num_attention_heads=4, num_key_value_heads=kv, tie_word_embeddings=tied
    )
    other, theirs = llama(mine)
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    labels = ids.masked_fill(mask == 0, -100)
    labels[1, 3] = -100  # told by padding: 0 with us, a mean of everything there
    a, b = (m(ids, attention_mask=mask, labels=labels) for m in (mine, other))
    real = mask.bool()
    torch.testing.assert_close(a.logits[real], b.logits[real], atol=1e-5, rtol=0)
    torch.testing.assert_close(a.loss, b.loss)
    a.loss.backward()
    b.loss.backward()
    grads = {name: p.grad for name, p in other.named_parameters()}
    for name, p in mine.named_parameters():
        torch.testing.assert_close(p.grad, grads[theirs(name)], atol=1e-5, rtol=1e-4)


def test_omega_0_is_llama():
    mine, vanilla = make(attention_options={"omega": 0.0}), make(attention="vanilla")
    assert not torch.equal(mine(tokens()).logits, vanilla(tokens()).logits)
    missing, extra = vanilla.load_state_dict(mine.state_dict(), strict=False)
    assert not missing
    assert extra
    for name, p in mine.named_parameters():
        if "omega" in name or "log_tau_score" in name:
            p.data.zero_()
    torch.testing.assert_close(mine(tokens()).logits, vanilla(tokens()).logits)


# --- every head


@pytest.mark.parametrize("head", HEADS)
def test_forward_backward(head):
    model = make(head, attention_options={"k": 3}).train()
    output = model(**inputs(head))
    assert states(head, output).isfinite().all()
    loss = states(head, output).square().mean() if head == "model" else output.loss
    loss.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
    norms = {n: float(p.grad.norm()) for n, p in model.named_parameters()}
    assert min(v for n, v in norms.items() if ".W_" in n or ".U." in n or "omega" in n) > 0


@pytest.mark.parametrize("head", HEADS)
def test_saved_and_loaded(head, tmp_path):
    model = make(head, attention="ascender", position="t5", normalizer="ssmax")
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    want = states(head, model(**inputs(head)))
    for kind in HEADS[head]:
        loaded = kind.from_pretrained(tmp_path)
        assert type(loaded) is HEADS[head][0]
        assert not loaded.training
        assert loaded.config.attention_options == OPTIONS["ascender"]
        assert torch.equal(states(head, loaded(**inputs(head))), want)
        assert loaded.state_dict().keys() == model.state_dict().keys()


PAIRS = [
    (attention, position)
    for attention in ATTENTIONS
    for position in ("rope", "alibi", "shaw", "learned")
    if fits(attention=attention, position=position)
]


@pytest.mark.parametrize(("attention", "position"), PAIRS)
def test_every_attention_and_position_is_restored(attention, position, tmp_path):
    model = make(attention=attention, position=position)
    near = grid(1, N, 1) if attention == "graph" else None
    model.save_pretrained(tmp_path)
    loaded = AscenderForCausalLM.from_pretrained(tmp_path)
    want, found = (m(tokens(), neighbours=near, use_cache=False).logits for m in (model, loaded))
    assert torch.equal(want, found)
    for (name, a), (_, b) in zip(model.named_buffers(), loaded.named_buffers(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_every_normalizer_is_restored(normalizer, tmp_path):
    if normalizer in ("sparsemax", "entmax15"):
        pytest.importorskip("entmax")
    options = {"topk": {"size": 3}, "length": {"scale": 16}}.get(normalizer, {})
    try:
        model = make(normalizer=normalizer, normalizer_options=options)
    except Exception:
        options = {}
        model = make(normalizer=normalizer)
    model.save_pretrained(tmp_path)
    loaded = AscenderForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(model(tokens()).logits, loaded(tokens()).logits)


def test_lam_is_saved(tmp_path):
    model = make()
    Schedule.constant(sep=0.0, coh=0.5).apply(model, 1, 2)
    want = model(tokens()).logits
    model.save_pretrained(tmp_path)
    loaded = AscenderForCausalLM.from_pretrained(tmp_path)
    assert loaded.config.lam == {"align": 1.0, "sep": 0.0, "coh": 0.5}
    assert torch.equal(loaded(tokens()).logits, want)
    Schedule.constant().apply(loaded, 1, 2)
    assert not torch.equal(loaded(tokens()).logits, want)
    loaded.save_pretrained(tmp_path)
    assert AscenderForCausalLM.from_pretrained(tmp_path).config.lam is None


def test_what_a_checkpoint_lacks_starts_as_it_should(tmp_path):
    """A vanilla model's weights in an ASCender: the rules' numbers are fresh, not memory."""
    vanilla = make(attention="vanilla")
    vanilla.save_pretrained(tmp_path)
    for name, kind in (("ascender", {"qk_norm": True}), ("performer", {"features": 32})):
        model = AscenderForCausalLM.from_pretrained(
            tmp_path, attention=name, attention_options=kind, position="rope", normalizer="ssmax"
        )
        fresh = AscenderForCausalLM(model.config)
        other = model.model.layers[1].attention
        assert torch.equal(
            other.W_Q.weight, vanilla.model.layers[1].attention.W_Q.weight
        )  # from the file
        for key, t in fresh.model.layers[1].attention.named_parameters():
            if t.ndim == 1:
                assert torch.equal(other.get_parameter(key), t), key
        if name == "ascender":
            std = (D * 16) ** -0.5
            assert 0.8 * std < float(other.U.weight.detach().std()) < 1.2 * std
        else:
            assert torch.equal(other.omega, fresh.model.layers[1].attention.omega)
            assert not torch.equal(other.omega, model.model.layers[0].attention.omega)
        assert model(tokens()).logits.isfinite().all()


@pytest.mark.parametrize("head", ["causal", "masked", "seq2seq"])
def test_tied_weights(head, tmp_path):
    from safetensors.torch import load_file

    model = make(head)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert len([t for t in saved.values() if t.shape == (V, D)]) == 1
    loaded = HEADS[head][0].from_pretrained(tmp_path)
    table = loaded.get_input_embeddings().weight
    assert loaded.lm_head.weight is table
    if head == "seq2seq":
        assert loaded.decoder.embed_tokens.weight is table
    free = make(head, tie_word_embeddings=False)
    assert free.lm_head.weight is not free.get_input_embeddings().weight


def test_a_position_is_saved_once(tmp_path):
    model = make(position="t5", tie_word_embeddings=False)
    assert [n for n in model.state_dict() if "position" in n] == ["model.position.table"]
    tables = {id(block.attention.position) for block in model.model.layers}
    assert tables == {id(model.model.position)}
    twin = copy.deepcopy(model)
    assert {id(b.attention.position) for b in twin.model.layers} == {id(twin.model.position)}
    assert model.double()(tokens()).logits.dtype == torch.float64


@pytest.mark.parametrize("head", ["causal", "masked", "seq2seq"])
def test_resize_of_embeddings(head):
    model = make(head)
    before = states(head, model(**inputs(head, labels=False)))
    model.resize_token_embeddings(V + 6)
    after = states(head, model(**inputs(head, labels=False)))
    assert after.shape[-1] == model.config.vocab_size == V + 6
    torch.testing.assert_close(after[..., :V], before)
    assert model.lm_head.weight is model.get_input_embeddings().weight
    more = inputs(head)
    more["input_ids"] = more["input_ids"] + 6
    assert model(**more).loss.isfinite()


@pytest.mark.parametrize("head", ["causal", "sequence", "seq2seq"])
@pytest.mark.parametrize("share", [1, 2])
def test_gradient_checkpointing_changes_nothing(head, share):
    fields = dict(share_neighbours=share, sep_loss=0.3, align_loss=0.2, coh_loss=0.1)
    plain, frugal = make(head, **fields).train(), make(head, **fields).train()
    frugal.gradient_checkpointing_enable()
    assert frugal.is_gradient_checkpointing
    runs = []
    some = next(m for m in frugal.modules() if type(m).__name__ == "Block")
    some.attention.register_forward_pre_hook(lambda *_: runs.append(1))
    losses = [m(**inputs(head)).loss for m in (plain, frugal)]
    for loss in losses:
        loss.backward()
    assert len(runs) == 2, "the block did not run again"
    torch.testing.assert_close(*losses)
    for (name, p), q in zip(plain.named_parameters(), frugal.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, msg=name)


@pytest.mark.parametrize("head", HEADS)
def test_bfloat16(head, tmp_path):
    model = make(head)
    want = states(head, model(**inputs(head)))
    model.save_pretrained(tmp_path)
    half = HEADS[head][0].from_pretrained(tmp_path, dtype=torch.bfloat16)
    output = half(**inputs(head))
    found = states(head, output)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), want, atol=0.15 * float(want.abs().max()), rtol=0)
    if head != "model":
        assert output.loss.isfinite()
        output.loss.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert states(head, model(**inputs(head))).isfinite().all()


COMPILED = """
import torch
from hf_cases import inputs, make, states
for head, fields in {cases}:
    model = make(head, **fields)
    compiled = torch.compile(model, backend="aot_eager")
    for labels in (True, False):
        given = inputs(head, labels)
        a, b = model(**given), compiled(**given)
        torch.testing.assert_close(states(head, a), states(head, b), atol=1e-5, rtol=1e-4)
    if head != "model":
        grads = []
        for m in (model, compiled):
            model.zero_grad()
            m(**inputs(head)).loss.backward()
            grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        for x, y in zip(*grads, strict=True):
            torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-3)
    with torch.no_grad():
        given = inputs(head, False)
        torch.testing.assert_close(
            states(head, compiled(**given)), states(head, model(**given)), atol=1e-5, rtol=1e-4)
print("equal")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases",
    [
        [("causal", {"num_hidden_layers": 1}), ("causal", {"num_hidden_layers": 1, "position": "t5",
          "attention": "vanilla"})],
        [("sequence", {"num_hidden_layers": 1, "coh_loss": 0.1}),
         ("seq2seq", {"num_hidden_layers": 1})],
    ],
)  # fmt: skip
def test_compiled_equals_eager(cases, request):
    run = subprocess.run(
        [sys.executable, "-c", COMPILED.format(cases=cases)],
        cwd=request.path.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.stdout.strip().endswith("equal"), run.stderr[-2000:]


# --- what comes out


@pytest.mark.parametrize("head", HEADS)
def test_outputs_on_demand(head):
    model, given = make(head), inputs(head, labels=False)
    plain = model(**given)
    full = model(**given, output_attentions=True, output_parts=True, output_hidden_states=True)
    torch.testing.assert_close(states(head, full), states(head, plain), atol=1e-5, rtol=1e-5)
    assert not set(plain) & {"attentions", "parts", "hidden_states", "cross_parts"}
    if head == "seq2seq":
        groups = [
            (full.encoder_attentions, full.encoder_parts, N, N),
            (full.decoder_attentions, full.decoder_parts, M, M),
            (full.cross_attentions, full.cross_parts, M, N),
        ]
        layers = (full.encoder_hidden_states, full.decoder_hidden_states)
    else:
        groups, layers = [(full.attentions, full.parts, N, N)], (full.hidden_states,)
    for hidden in layers:
        assert len(hidden) == 3
    for weights, parts, n, m in groups:
        assert len(weights) == len(parts) == 2
        for A, p in zip(weights, parts, strict=True):
            assert A.shape == (B, H, n, m)
            torch.testing.assert_close(A.sum(-1), torch.ones(B, H, n))
            assert torch.equal(A, p.weights)
            terms = p.base + p.align + p.sep + p.coh + p.other
            ratio = (terms / p.total)[p.total.abs() > 1e-3]  # τ_score, one a head
            assert ratio.isfinite().all()
            assert float(ratio.std()) < 0.1
            assert p.sep.abs().max() > 0


def test_terms_sum_to_the_total():
    model = make()
    for layer in model.model.layers:
        layer.attention.log_tau_score.data.zero_()
    for p in model(tokens(), output_parts=True).parts:
        torch.testing.assert_close(p.base + p.align + p.sep + p.coh + p.other, p.total)


def test_outputs_by_the_config():
    model = make(output_attentions=True, output_hidden_states=True)
    assert len(model(tokens()).attentions) == 2
    assert len(model(tokens()).hidden_states) == 3
    assert model(tokens(), output_attentions=False).attentions is None


def test_looking_changes_nothing_where_neighbours_are_shared():
    model = make(share_neighbours=2)
    looked = model(tokens(), output_parts=True).logits
    torch.testing.assert_close(looked, model(tokens()).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("head", ["causal", "seq2seq", "model"])
def test_a_tuple_where_wanted(head):
    model, given = make(head), inputs(head)
    row = model(**given, return_dict=False)
    assert isinstance(row, tuple)
    assert torch.equal(row[0], model(**given)[0])


def test_an_attention_without_scores_says_so():
    with pytest.raises(ValueError, match="no matrix of scores"):
        make(attention="longformer")(tokens(), output_attentions=True)


def test_hidden_states_end_with_the_normed():
    model = make("model")
    output = model(tokens(), output_hidden_states=True)
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    assert torch.equal(output.hidden_states[0], model.embed_tokens(tokens()))


# --- losses


@pytest.mark.parametrize("head", [h for h in HEADS if h != "model"])
def test_labels_give_the_loss_with_the_auxiliary_ones(head):
    weights = LossWeights(align=0.7, sep=0.5, coh=0.3)
    plain = make(head)
    model = make(head, align_loss=0.7, sep_loss=0.5, coh_loss=0.3)
    given = inputs(head)
    with collect(plain) as found:
        task = plain(**given).loss
    want = task + found.total(weights)
    loss = model(**given).loss
    torch.testing.assert_close(loss, want)
    assert float(loss) > float(task) + 0.01
    model.loss_weights = weights.at(0, 100)  # before the ramp
    torch.testing.assert_close(model(**given).loss, task)


def test_causal_loss_is_the_next_token():
    model, ids = make(), tokens()
    labels = ids.clone()
    labels[0, 4:7] = -100
    output = model(ids, labels=labels)
    rows = [
        F.cross_entropy(output.logits[b, i], ids[b, i + 1])
        for b in range(B)
        for i in range(N - 1)
        if labels[b, i + 1] != -100
    ]
    torch.testing.assert_close(output.loss, torch.stack(rows).mean())


@pytest.mark.parametrize("head", [h for h in HEADS if h != "model"])
def test_accumulated_batches_are_one_batch(head):
    """Σ over parts of the loss, each told the count of the whole, is the loss of the whole."""
    model, given = make(head), inputs(head)
    if head not in ("sequence",):
        given["labels"][0, 2:5] = -100
    later = given["labels"][:, 1:] if head == "causal" else given["labels"]
    items = int((later != -100).sum())
    parts = [{name: t[b : b + 1] for name, t in given.items()} for b in range(B)]
    total = sum(model(**part, num_items_in_batch=items).loss for part in parts)
    torch.testing.assert_close(total, model(**given).loss)


def test_no_label_no_nan():
    model, ids = make("masked"), tokens()
    assert float(model(ids, labels=torch.full_like(ids, -100)).loss) == 0


def test_kinds_of_sequence_labels():
    one = make("sequence", num_labels=1)
    numbers = torch.tensor([0.3, -2.0])
    output = one(tokens(), labels=numbers)
    torch.testing.assert_close(output.loss, (output.logits[:, 0] - numbers).square().mean())
    many = make("sequence", problem_type="multi_label_classification")
    rows = torch.tensor([[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]])
    output = many(tokens(), labels=rows)
    want = F.binary_cross_entropy_with_logits(output.logits, rows.float())
    torch.testing.assert_close(output.loss, want)


# --- laws in a whole model


@pytest.mark.parametrize(("attention", "position"), [p for p in PAIRS if p[0] != "graph"])
def test_causal(attention, position):
    model = make(attention=attention, position=position)
    ids = tokens()
    other = ids.clone()
    other[:, 6] = (other[:, 6] + 1) % V
    with torch.no_grad():
        for cached in (False, True):
            a, b = (model(x, use_cache=cached).logits for x in (ids, other))
            torch.testing.assert_close(a[:, :6], b[:, :6], atol=1e-6, rtol=1e-6)
            assert not torch.allclose(a[:, 6:], b[:, 6:], atol=1e-3)
    seeing = AscenderModel(
        config(attention=attention, attention_options={**OPTIONS.get(attention, {})})
    )
    seeing.load_state_dict(make("model", attention=attention).state_dict())
    a, b = (seeing(x).last_hidden_state for x in (ids, other))
    assert not torch.allclose(a[:, :6], b[:, :6], atol=1e-4), "an encoder sees what comes"


SIDES = {"left": slice(0, 4), "right": slice(7, N)}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("position", ["rope", "learned", "t5"])
def test_padding_never_leaks(head, side, position):
    model = make(head, position=position)
    given = inputs(head, labels=False)
    mask = torch.ones(B, N, dtype=torch.long)
    mask[1, SIDES[side]] = 0
    ids = given["input_ids"].clone()
    ids[1, SIDES[side]] = 2
    other = {**given, "input_ids": ids}
    a, b = (states(head, model(**x, attention_mask=mask)) for x in (given, other))
    rows = mask.bool() if a.shape[1] == N and a.ndim == 3 else ...
    assert torch.equal(a[rows], b[rows])
    if (head, side) != ("causal", "right"):
        a, b = (states(head, model(**x)) for x in (given, other))
        assert not torch.allclose(a[rows], b[rows], atol=1e-4), "without a mask it does leak"
    alone = {name: t[1:] for name, t in given.items()}
    alone["input_ids"] = given["input_ids"][1:, mask[1].bool()]
    one = states(head, model(**alone))
    both = states(head, model(**given, attention_mask=mask))[1:]
    both = both[:, mask[1].bool()] if rows is not ... else both
    torch.testing.assert_close(one, both, atol=1e-5, rtol=1e-5)


def test_padding_where_globals_count_from_the_first_is_refused():
    mask = torch.ones(B, N)
    mask[1, :3] = 0
    for attention, options in (("ascender", {"window": 3, "n_global": 1}), ("bigbird", {})):
        model = make(attention=attention, attention_options=options)
        with pytest.raises(
            ValueError, match=r"padding on the left with.*expected padding on the r"
        ):
            model(tokens(), attention_mask=mask)
        assert model(tokens(), attention_mask=mask.flip(1)).logits.isfinite().all()


def test_masks_of_four_axes():
    model, ids = make("masked"), tokens()
    seen = torch.ones(N, N, dtype=torch.bool).tril()[None, None]
    want = make()(ids).logits
    torch.testing.assert_close(model(ids, attention_mask=seen).logits, want, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match=r"attention_mask is torch.float32.*expected"):
        model(ids, attention_mask=torch.zeros(B, 1, N, N))


def test_embeddings_instead_of_tokens():
    model, ids = make(), tokens()
    x = model.get_input_embeddings()(ids)
    assert torch.equal(model(inputs_embeds=x).logits, model(ids).logits)
    with pytest.raises(ValueError, match="exactly one"):
        model(ids, inputs_embeds=x)


def test_a_slip_in_an_input_is_named():
    with pytest.raises(TypeError, match=r"'attention_maks' \(did you mean 'attention_mask'"):
        make()(tokens(), attention_maks=torch.zeros(B, N))
    make()(tokens(), token_type_ids=tokens())  # what tokenizers add does no harm


# --- neighbours


def test_shared_neighbours_are_reused():
    seen = []

    def spy(module, args, kwargs):
        seen.append(kwargs["neighbours"])

    model = make(share_neighbours=2, num_hidden_layers=3)
    for block in model.model.layers:
        block.attention.register_forward_pre_hook(spy, with_kwargs=True)
    shared = model(tokens()).logits
    assert [near is None for near in seen] == [True, False, True]
    alone = make(num_hidden_layers=3)(tokens()).logits
    assert not torch.allclose(shared, alone, atol=1e-5), "it makes a difference"


def test_neighbours_pass_through_to_every_layer():
    model, ids = make("masked"), tokens()
    near = grid(1, N, 1)
    given = model(ids, neighbours=near, output_parts=True)
    for p in given.parts:  # separation acts on the listed ones only
        row = p.sep[0, 0, 5]
        far = torch.tensor([j for j in range(N) if j not in (4, 5, 6)])
        assert torch.unique(row[far].round(decimals=5)).numel() == 1
    assert not torch.allclose(given.logits, model(ids).logits, atol=1e-4)


@pytest.mark.parametrize("attention", ["graph", "ascender"])
def test_a_graph_in_a_model(attention):
    model, ids = make("token", attention=attention), tokens()
    ring = graph(torch.tensor([[i, (i + 1) % N] for i in range(N)]).T, N)
    if attention == "graph":
        for layer in model.model.layers:
            nn.init.normal_(layer.attention.table)
    path = grid(1, N, 1)
    a, b = (model(ids, neighbours=near).logits for near in (ring, path))
    assert not torch.allclose(a, b, atol=1e-4)
    if attention == "graph":
        with pytest.raises(ValueError, match="expected index lists"):
            model(ids)
        with torch.no_grad():  # a graph has no past: no cache is made by default
            causal = make(attention="graph")
            assert causal(ids, neighbours=path).past_key_values is None


def test_layers_draw_anew():
    layers = make(attention="performer").model.layers
    assert len({float(layer.attention.omega.sum()) for layer in layers}) == 2
    assert [layer.attention.seed for layer in make(attention="shuffled").model.layers] == [0, 1]


def test_every_position_has_a_model():
    assert set(POSITIONS) >= {"rope", "alibi", "t5", "shaw", "learned", "sinusoidal", "none"}
    found = [make(position=p)(tokens()).logits for p in POSITIONS]
    for i, a in enumerate(found):
        for b in found[:i]:
            assert not torch.allclose(a, b, atol=1e-4)
