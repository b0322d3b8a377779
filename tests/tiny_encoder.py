"""A passage encoder and a re-ranker of one layer with random weights, which know ten letters as words."""

import json

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]


def save_encoder(folder, *, seed=7):
    """Save an encoder as Hugging Face saves one, whose files say that it takes the first token; returns its folder."""
    from transformers import BertModel

    _save(folder, BertModel, seed)
    kind = "sentence_transformers.models"
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{kind}.Transformer"}]
    modules.append({"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}.Pooling"})
    pooling = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    settings = {"max_seq_length": 256, "do_lower_case": False}
    (folder / "1_Pooling").mkdir()
    files = {"modules.json": modules, "sentence_bert_config.json": settings, "1_Pooling/config.json": pooling}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder


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
