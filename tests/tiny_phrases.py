"""A small corpus, and a small phrase encoder and phrase re-ranker with random weights."""

import json

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from tour_pyserini.phrases.phrase_encoder import EncoderSettings, PhraseModel
from tour_pyserini.phrases.reranker_input import RerankerInput

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *LETTERS.upper(), *"0123456789.,:;!?'()-é"]
WORDS += [f"##{word}" for word in WORDS[5:]] + ["the", "prize", "first", "king", "river", "moon", "##ing", "##ed"]

DOCUMENTS = [
    {"_id": "a", "title": "Nobel Prize", "text": "The first prize in physics went to Wilhelm Röntgen. It was 1901."},
    {"_id": "b", "title": "Rivers", "text": "A river runs to the sea: the Rhine, the Seine and the Thames."},
    {"_id": "empty", "title": "Nothing", "text": ""},
    {"_id": "c", "title": "", "text": "no sentence boundary, a king under the moon, an e\u0301tude 👩‍👩‍👧 of light"},
    {"_id": "d", "title": "Kings", "text": "The king of the river was crowned in 1066. His moon was red. Nobody came."},
]


def configuration(hidden=16, spread=0.4):
    sizes = {"hidden_size": hidden, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return BertConfig(vocab_size=len(WORDS), max_position_embeddings=128, initializer_range=spread, **sizes)


def save_tokenizer(folder, *, lower=False):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"), do_lower_case=lower)
    tokenizer.save_pretrained(folder)
    return tokenizer


def save_encoder(folder, *, seed=0, **settings):
    """A folder as `train phrase-encoder` writes it; without settings, as the published ones of DensePhrases."""
    torch.manual_seed(seed)
    save_tokenizer(folder)
    PhraseModel(configuration()).save(folder)
    if settings:
        EncoderSettings(**{"max_length": 64, "stride": 16, "filter_threshold": float("-inf"), **settings}).save(folder)
    return folder


def save_reranker(folder):
    """A re-ranker that reads a phrase in its sentence."""
    torch.manual_seed(1)
    save_tokenizer(folder)
    config = configuration()
    config.num_labels = 1
    BertForSequenceClassification(config).save_pretrained(folder)
    RerankerInput(context="1").save(folder)


def build_phrases(encoder, corpus, folder, *more):
    """Build a phrase index with the command; returns its folder."""
    from tour_pyserini.index import main

    flags = ["--phrases", "--corpus", corpus, "--encoder", encoder, "--index", folder, "--threads", 1, *more]
    main([str(flag) for flag in flags])
    return folder


def write_corpus(path, documents=DOCUMENTS):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path
