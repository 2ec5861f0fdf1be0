"""The Hugging Face models: Llama as the reference, and every head trained, tied, resized,
checkpointed, in bfloat16; its losses."""

import pytest
import torch
import torch.nn.functional as F
import transformers

from ascender.core.losses import collect
from ascender.core.schedule import LossWeights
from support.hf_cases import HEADS, B, N, V, inputs, make, states, tokens


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
def test_resize_of_embeddings(head):
    model = make(head)
    before = states(head, model(**inputs(head, labels=False)))
    model.resize_token_embeddings(V + 6)
    after = states(head, model(**inputs(head, labels=False)))
    assert model.get_input_embeddings().num_embeddings == model.config.vocab_size == V + 6
    if hasattr(model, "lm_head"):
        assert after.shape[-1] == V + 6
        assert model.lm_head.weight is model.get_input_embeddings().weight
    torch.testing.assert_close(after[..., : before.shape[-1]], before)
    more = inputs(head)
    more["input_ids"] = more["input_ids"] + 6
    assert states(head, model(**more)).isfinite().all()


@pytest.mark.parametrize("head", [h for h in HEADS if h != "model"])
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


@pytest.mark.parametrize("head", ["causal", "seq2seq"])
def test_reentrant_checkpointing_loses_no_loss_unsaid(head):
    reentrant = {"use_reentrant": True}
    plain, losing = make(head).train(), make(head, coh_loss=0.1).train()
    for model in (plain, losing):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=reentrant)
        model.get_input_embeddings().requires_grad_()
    plain(**inputs(head)).loss.backward()  # nothing to lose
    assert all(p.grad is not None for name, p in plain.named_parameters() if "W_Q" in name)
    with pytest.raises(RuntimeError, match=r"expected gradient_checkpointing_enable.*False"):
        losing(**inputs(head))


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
