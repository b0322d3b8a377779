"""A passage encoder and a re-ranker of one layer with random weights, which know ten letters as words."""

import json

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]


def save_encoder(folder, *, seed=7):
    """Save an encoder, which takes the first token, as Hugging Face saves one; returns its folder."""
    from transformers import BertModel

    return declare_pooling(_save(folder, BertModel, seed))


def save_reranker(folder, *, seed=7):
    """Save a cross-encoder with one output; returns its folder."""
    from transformers import BertForSequenceClassification

    return _save(folder, BertForSequenceClassification, seed, num_labels=1)


def _save(folder, kind, seed, **settings):
    import torch
    from transformers import BertConfig, BertTokenizerFast

    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    kind(BertConfig(vocab_size=len(WORDS), **sizes, **settings)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def declare_pooling(folder):
    """Let a folder with a transformer say that its vectors are those of the first token; returns it."""
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256, "do_lower_case": False}))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder
