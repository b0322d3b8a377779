"""Training of phrase re-rankers and readers, on a tiny retriever and a tiny base."""

import json

import numpy as np
import pytest
import torch
from tiny_phrases import configuration, save_encoder, save_tokenizer

from tour_pyserini import index, train
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_questions
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_measures import normalise
from tour_pyserini.phrases.encoder import load_phrase_encoder
from tour_pyserini.phrases.index import open_phrase_index
from tour_pyserini.phrases.phrase_ids import PhraseSpan
from tour_pyserini.phrases.phrase_input import PhraseInput, read_phrase_input
from tour_pyserini.phrases.searcher import PhraseSearcher
from tour_pyserini.phrases.spans import sentences_around
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.support.checkpoints import read_tokenizer
from tour_pyserini.training import reranker_candidates as candidates_module
from tour_pyserini.training.examples import Example
from tour_pyserini.training.phrase_reranker import Candidates, RerankerTask, find_candidates, marked_classifier
from tour_pyserini.training.reader import ReadingTask
from tour_pyserini.training.request import TrainRequest

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def phrases(folder):
    """A phrase index of everything, by an encoder with random weights."""
    encoder = save_encoder(folder / "retriever", pooling="mean")
    paths = ["--corpus", folder / "corpus.jsonl", "--encoder", encoder, "--index", folder / "phrases"]
    index.main([str(word) for word in ["--phrases", *paths, "--threads", 1]])
    return folder / "phrases"


@pytest.fixture(scope="module")
def searcher(folder, phrases):
    encoder = load_phrase_encoder(folder / "retriever")
    return PhraseSearcher(open_phrase_index(phrases), encoder, open_texts(folder / "corpus.jsonl"))


def flags(folder, phrases, output, *more):
    words = [
        "phrase-reranker",
        "--base",
        folder / "base",
        "--index",
        phrases,
        "--corpus",
        folder / "corpus.jsonl",
    ]
    words += [
        "--data",
        folder / "questions.jsonl",
        "--validation",
        folder / "questions.jsonl",
        "--output",
        output,
    ]
    words += ["--depth", 60, "--threads", 1, "--max-length", 100, "--batch-size", 4, "--learning-rate", 3e-3]
    return [str(word) for word in [*words, *more]]


def reading_flags(folder, output, *more):
    data = [folder / "questions.jsonl", folder / "corpus.jsonl"]
    words = ["reading-comprehension", "--base", folder / "base", "--output", output, "--data", *data]
    words += ["--validation", *data, "--epochs", 30, "--learning-rate", 3e-3, "--validate-every", 20, "--threads", 1]
    return [str(word) for word in [*words, "--max-length", 100, "--batch-size", 4, *more]]


@pytest.mark.parametrize(("positive", "context"), [("context", "1"), ("phrase", "3")])
def test_candidates_are_right_or_wrong_by_their_answers(folder, searcher, tmp_path, positive, context):
    questions = read_questions(folder / "questions.jsonl")
    how = {"depth": 60, "positive": positive, "file": tmp_path / "kept.jsonl"}
    found = find_candidates(questions, searcher, PhraseInput(context=context), **how)
    by_question = {question.text: question.answers for question in questions}
    assert {one.question for one in found} <= by_question.keys()
    assert "nothing to be found" not in {one.question for one in found}
    assert len(found) >= 3
    for one in found:
        answers = [normalise(answer) for answer in by_question[one.question]]
        for spans, wanted in ((one.right, True), (one.wrong, False)):
            for docid, begin, end in spans:
                text = searcher.texts[docid].parts[1]
                if positive == "context":
                    first, last = sentences_around(text, begin, end, sides=0)
                    literal = [answer.lower() for answer in by_question[one.question]]
                    assert any(answer in text[first:last].lower() for answer in literal) is wanted
                else:
                    assert (normalise(text[begin:end]) in answers) is wanted


def test_saved_candidates_are_not_searched_again(folder, searcher, tmp_path, monkeypatch):
    monkeypatch.setattr(candidates_module, "AT_ONCE", 3)
    questions = read_questions(folder / "questions.jsonl")
    how = {"depth": 60, "positive": "context", "file": tmp_path / "kept.jsonl"}
    whole = find_candidates(questions, searcher, PhraseInput(), **how)
    kept = (tmp_path / "kept.jsonl").read_bytes()
    (tmp_path / "kept.jsonl").write_bytes(kept[: len(kept) // 2])  # in the middle of a line
    asked = []
    search = PhraseSearcher.batch_search
    monkeypatch.setattr(PhraseSearcher, "batch_search", lambda s, q, *a, **k: asked.extend(q) or search(s, q, *a, **k))
    assert find_candidates(questions, searcher, PhraseInput(), **how) == whole
    assert 0 < len(asked) < len(questions)
    assert (tmp_path / "kept.jsonl").read_bytes() == kept
    for line in (b"{\n", b"[[1]]\n", b"[" * 3000 + b"\n", b"null\n"):
        (tmp_path / "kept.jsonl").write_bytes(line * len(questions))
        with pytest.raises(TourError, match=r"kept\.jsonl is damaged .*; delete it"):
            find_candidates(questions, searcher, PhraseInput(), **how)
    (tmp_path / "kept.jsonl").write_bytes(kept)
    with pytest.raises(TourError, match="positive must be context or phrase, not 'title'"):
        find_candidates(questions, searcher, PhraseInput(), **{**how, "positive": "title"})


def test_marks_become_tokens(folder):
    torch.manual_seed(0)
    model, tokenizer = marked_classifier(folder / "base", labels=2)
    ids = tokenizer("the [S] moon [E].")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids)[2:5:2] == ["[S]", "[E]"]
    assert model.get_input_embeddings().weight.shape[0] == len(tokenizer) > max(ids)
    assert model(**tokenizer("the [S] moon", return_tensors="pt")).logits.shape == (1, 2)


@pytest.mark.parametrize("loss", ["pairwise", "pointwise"])
def test_a_phrase_reranker_learns_and_can_be_loaded(folder, phrases, tmp_path, loss):
    train.main(flags(folder, phrases, tmp_path / "model", "--loss", loss, "--epochs", 24, "--validate-every", 16))
    record = json.loads((tmp_path / "model" / "training.json").read_text())
    best = max(entry["accuracy"] for entry in record["history"])
    assert best >= 0.8
    assert record["history"][-1]["loss"] < record["history"][1]["loss"]
    shown = read_phrase_input(tmp_path / "model")
    assert shown == PhraseInput(context="3", title=True, separator=" [SEP] ")
    reranker = load_reranker(tmp_path / "model", max_length=100)
    passage = shown("Kings", "The king of the river was crowned in 1066. His moon was red.", 37, 41)
    assert "[S] 1066 [E]" in passage
    scores = reranker.predict([("when was the king crowned", passage)])
    assert np.isfinite(scores).all()
    logits = {"pairwise": 1, "pointwise": 2}[loss]
    assert json.loads((tmp_path / "model" / "config.json").read_text()).get("num_labels", logits) == logits


def test_an_interrupted_training_continues_with_its_candidates(folder, phrases, tmp_path, monkeypatch):
    from tour_pyserini.training.phrase_reranker import RerankerTask

    short = ["--max-steps", 5, "--save-every", 2, "--context", "1", "--no-title"]
    train.main(flags(folder, phrases, tmp_path / "whole", *short))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RerankerTask, "validate", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        train.main(flags(folder, phrases, tmp_path / "cut", *short))
    assert (tmp_path / "cut.partial" / "candidates.jsonl").exists()
    monkeypatch.setattr(PhraseSearcher, "batch_search", None)  # nothing is searched again
    train.main(flags(folder, phrases, tmp_path / "cut", *short))
    for name in ("model.safetensors", "training.json", "tour-phrase-input.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "cut.partial").exists()
    with pytest.raises(TourError, match="there is no model"):
        arguments = flags(folder, phrases, tmp_path / "x")
        arguments[arguments.index("--base") + 1] = str(tmp_path / "nowhere")
        train.main(arguments)


def test_data_may_be_a_name_of_pyserini_topics(folder, phrases, tmp_path, monkeypatch):
    from tour_pyserini.training import jobs

    monkeypatch.setattr(
        jobs, "read_questions", lambda _: read_questions(folder / "questions.jsonl")
    )  # nothing is downloaded
    words = flags(folder, phrases, tmp_path / "model", "--max-steps", 1)
    words[words.index("--data") + 1] = "dpr-nq-dev"
    train.main(words)
    assert json.loads((tmp_path / "model" / "training.json").read_text())["settings"]["data"] == [{"dpr-nq-dev": None}]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_missing_device_is_refused_for_re_rankers(folder, phrases, tmp_path):
    with pytest.raises(TourError, match="cannot run on the device 'cuda:0'"):
        train.main(flags(folder, phrases, tmp_path / "x", "--device", "cuda:0"))
    model, tokenizer = marked_classifier(folder / "base", labels=1)
    with pytest.raises(TourError, match="cannot run on the device 'nonsense'"):
        RerankerTask(model, tokenizer, [], [], {}, PhraseInput(), TrainRequest(), device="nonsense")
    with pytest.raises(TourError, match="cannot run on the device 'cuda:0'"):
        train.main(reading_flags(folder, tmp_path / "x", "--device", "cuda:0"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("max_length", [24, 4096])  # fewer than a question has; more than the model's 128 positions
def test_pairs_are_truncated_as_in_search(folder, searcher, max_length):
    model, tokenizer = marked_classifier(folder / "base", labels=1)
    spans = (PhraseSpan("b", 2, 7), PhraseSpan("d", 4, 8))
    ways = {"who " * 140: "longest_first", "which river": "only_second"}
    found = [Candidates(question, spans[:1], spans[1:]) for question in ways]
    data = (found, found, searcher.texts, PhraseInput(), TrainRequest())
    task, seen = RerankerTask(model, tokenizer, *data, max_length=max_length), []
    model.register_forward_pre_hook(lambda _, args, given: seen.append(given), with_kwargs=True)
    task.loss([(question, *spans) for question in ways])
    length = min(max_length, 128)
    expected = [
        tokenizer(question, shown, truncation=way, max_length=length)["input_ids"]
        for shown in (PhraseInput()(*searcher.texts[span.docid].parts, span.begin, span.end) for span in spans)
        for question, way in ways.items()
    ]
    rows = [ids[mask == 1].tolist() for ids, mask in zip(seen[0]["input_ids"], seen[0]["attention_mask"], strict=True)]
    assert rows == expected
    assert len(rows[0]) == length


@pytest.mark.parametrize("max_length", [24, 4096])
def test_a_reader_reads_questions_of_any_length(folder, max_length):
    from transformers import AutoModelForQuestionAnswering

    torch.manual_seed(0)
    model = AutoModelForQuestionAnswering.from_pretrained(folder / "base")
    tokenizer = read_tokenizer(folder / "base")
    examples = [Example(question, ["A river"], "b", "", "A river runs.") for question in ("who " * 140, "which")]
    task = ReadingTask(model, tokenizer, examples, examples, TrainRequest(), max_length=max_length)
    task.model.eval()
    with torch.no_grad():
        together, *each = [float(task.loss(batch)) for batch in (examples, examples[:1], examples[1:])]
    assert together == pytest.approx(np.mean(each), abs=1e-5)
    assert set(task.validate()) == {"EM", "F1"}


def test_a_published_reranker_loads_with_its_two_logits(tmp_path):
    """RoBERTa with two classes and the marks among its tokens, as the paper's authors publish them."""
    from transformers import BertForSequenceClassification

    torch.manual_seed(2)
    tokenizer = save_tokenizer(tmp_path)
    tokenizer.add_tokens(["[S]", "[E]"], special_tokens=True)
    tokenizer.save_pretrained(tmp_path)
    config = configuration()
    config.num_labels, config.vocab_size = 2, len(tokenizer)
    model = BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    pair = ("who is king", "Kings [SEP] The [S] king [E] of the river")
    with torch.no_grad():
        logits = model(**tokenizer(*pair, return_tensors="pt")).logits[0]
    assert load_reranker(tmp_path).predict([pair])[0] == pytest.approx(float(logits[1] - logits[0]), abs=1e-5)


def test_a_reader_can_be_the_base_of_a_reranker(folder, phrases, tmp_path):
    train.main(reading_flags(folder, tmp_path / "reader"))
    history = json.loads((tmp_path / "reader" / "training.json").read_text())["history"]
    assert max(entry["EM"] for entry in history) >= 0.7 > history[0]["EM"]
    arguments = flags(folder, phrases, tmp_path / "model", "--max-steps", 2)
    arguments[arguments.index("--base") + 1] = str(tmp_path / "reader")
    train.main(arguments)
    assert load_reranker(tmp_path / "model").predict([("who", "[S] me [E]")]).shape == (1,)
