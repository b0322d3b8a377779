"""A last layer that computes one token only."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tour_pyserini.rerankers.torch_runner import shorten_last_layer  # noqa: E402

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
KINDS = dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), SIZES)
KINDS["distilbert"] = {"vocab_size": 50, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}


def classifier(kind, **sizes):
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, num_labels=1, pad_token_id=0, initializer_range=0.5, **sizes)
    return transformers.AutoModelForSequenceClassification.from_config(config).eval()


@pytest.fixture
def inputs():
    ids = torch.randint(4, 50, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    for row, length in enumerate((9, 5, 1)):
        ids[row, length:], mask[row, length:] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_shortened_layer_gives_the_same_logits(kind, attention, inputs):
    model = classifier(kind, **KINDS[kind])
    model.set_attn_implementation(attention)
    with torch.inference_mode():
        expected = model(**inputs).logits
        rows = []
        model.base_model.register_forward_hook(lambda _, __, output: rows.append(output[0].shape[1]))
        assert shorten_last_layer(model, inputs)
        other = {name: ids.flip(0)[:, :7] for name, ids in inputs.items()}
        whole = classifier(kind, **KINDS[kind])
        torch.testing.assert_close(model(**inputs).logits, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model(**other).logits, whole(**other).logits, rtol=1e-5, atol=1e-5)
    assert rows[-1] == 1  # hidden states of one token, not of nine
    assert expected.std() > 0.01
    if kind == "bert":  # a head that reads all tokens; other layers
        model = classifier(kind, **KINDS[kind])
        pool, last = model.bert.pooler.forward, model.bert.encoder.layer[-1]
        model.bert.pooler.forward = lambda hidden: pool(hidden.mean(dim=1, keepdim=True))
        assert not shorten_last_layer(model, inputs) and model.bert.encoder.layer[-1] is last
        assert not shorten_last_layer(classifier("albert", **SIZES, embedding_size=16), inputs)
