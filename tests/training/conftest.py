import json

import pytest
import torch
from tiny_phrases import DOCUMENTS, configuration, save_tokenizer, write_corpus

QUESTIONS = [
    ("who got the first prize", ["Wilhelm Röntgen"], "a"),
    ("when was the first prize", ["1901"], "a"),
    ("which river", ["Rhine", "the Rhine"], "b"),
    ("where does the river run", ["the sea"], "b"),
    ("who is under the moon", ["a king"], "c"),
    ("when was the king crowned", ["1066", "in 1066"], "d"),
    ("what was red", ["his moon"], "d"),
    ("nothing to be found", ["Atlantis"], "d"),
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with a corpus, questions about it, and a base with random weights."""
    from transformers import BertModel

    folder = tmp_path_factory.mktemp("training")
    write_corpus(folder / "corpus.jsonl", DOCUMENTS)
    lines = [
        {"_id": f"q{number}", "question": question, "answers": answers, "gold": docid}
        for number, (question, answers, docid) in enumerate(QUESTIONS)
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    torch.manual_seed(5)
    save_tokenizer(folder / "base", lower=True)
    BertModel(configuration(hidden=32, spread=0.1)).save_pretrained(folder / "base")
    return folder
