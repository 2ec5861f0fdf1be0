"""Vectors beside tokens, and smoothed labels."""

import pytest
import torch
import torch.nn.functional as F

from support.hf_cases import B, N, make, tokens

W = 5


def vectors():
    return torch.randn(B, N, W, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("head", ["sequence", "token", "causal"])
def test_vectors_are_read_by_a_linear_map(head, tmp_path):
    model, x, ids = make(head, vector_size=W), vectors(), tokens()
    read, embed = model.model.read, model.model.embed_tokens
    with torch.no_grad():
        for given, meant in (
            ({"vectors": x}, read(x)),
            ({"vectors": x, "input_ids": ids}, embed(ids) + read(x)),
        ):
            found = model(**given).logits
            torch.testing.assert_close(found, model(inputs_embeds=meant).logits)
        assert (found - model(input_ids=ids).logits).abs().max() > 1e-3
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(loaded(vectors=x).logits, model(vectors=x).logits)


def test_vectors_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"vectors of 5; expected config.vector_size = 0"):
        make("token")(vectors=vectors())
    with pytest.raises(ValueError, match=r"vectors of 5; expected config.vector_size = 3"):
        make("token", vector_size=3)(vectors=vectors())
    with pytest.raises(ValueError, match=r"or vectors"):
        make("token")()


@pytest.mark.parametrize("head", ["causal", "masked", "token", "sequence", "seq2seq"])
def test_labels_are_smoothed_while_training_only(head):
    model = make(head, label_smoothing=0.3)
    labels = torch.tensor([4, 1]) if head == "sequence" else tokens(seed=5) % 5
    given = {"input_ids": tokens(), "labels": labels}
    calm = model(**given)
    logits, wanted = calm.logits, labels
    if head == "causal":
        logits, wanted = logits[:, :-1], labels[:, 1:]
    flat, wanted = logits.reshape(-1, logits.shape[-1]), wanted.flatten()
    torch.testing.assert_close(calm.loss, F.cross_entropy(flat, wanted))
    smooth = F.cross_entropy(flat, wanted, label_smoothing=0.3)
    torch.testing.assert_close(model.train()(**given).loss, smooth)
    assert (smooth - calm.loss).abs() > 1e-4


@pytest.mark.parametrize(
    ("field", "value"), [("label_smoothing", 1.0), ("label_smoothing", -0.1), ("vector_size", -1)]
)
def test_bad_values_are_named(field, value):
    with pytest.raises(Exception, match=f"{field} = {value}"):
        make("token", **{field: value})
