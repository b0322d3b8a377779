"""Training of phrase re-rankers, on a tiny retriever and a tiny base."""

import json

import pytest
import torch
from tiny_phrases import build_phrases, save_encoder
from transformers import AutoModelForSequenceClassification

from tour_pyserini import train
from tour_pyserini.data.topics import read_questions
from tour_pyserini.evaluation.answer_matching import normalise
from tour_pyserini.phrases.phrase_index import PhraseSpan
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher
from tour_pyserini.phrases.reranker_input import RerankerInput
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.support.model_files import read_tokenizer
from tour_pyserini.training.reranker_tasks import RerankerTask

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def searcher(folder):
    """Searches a phrase index of everything, by an encoder with random weights."""
    encoder = folder / "retriever"
    if not (folder / "phrases").exists():  # a worker that steals tests may come back to this module
        build_phrases(save_encoder(encoder, pooling="mean"), folder / "corpus.jsonl", folder / "phrases")
    return PhraseSearcher.open(str(folder / "phrases"), str(folder / "corpus.jsonl"), encoder)


def run(folder, output, *more, base=None, data=None):
    words = f"phrase-reranker --base {base or folder / 'base'} --index {folder}/phrases --corpus {folder}/corpus.jsonl"
    words += f" --data {data or folder / 'questions.jsonl'} --validation {folder}/questions.jsonl --output {output}"
    words += " --depth 60 --threads 1 --max-length 100 --batch-size 4 --learning-rate 3e-3"
    train.main([*words.split(), *map(str, more)])


def make_task(folder, **more):
    data = [[folder / "questions.jsonl"]]
    where = {"base": "b", "output": "o", "index": folder / "phrases", "corpus": folder / "corpus.jsonl", "depth": 60}
    return RerankerTask(train.PhraseRerankerRequest(**where, data=data, validation=data, **more), folder / "base")


@pytest.mark.parametrize(("positive", "context"), [("context", "1"), ("phrase", "3")])
def test_candidates_are_right_or_wrong_by_their_answers(folder, searcher, positive, context):
    task = make_task(folder, positive=positive, context=context)
    answers = {question.text: question.answers for question in read_questions(folder / "questions.jsonl")}
    assert len(task.candidates) >= 3 and "nothing to be found" not in {one.question for one in task.candidates}
    for one in task.candidates:
        for spans, wanted in ((one.right, True), (one.wrong, False)):
            for docid, begin, end in spans:
                text = searcher.texts[docid].parts[1]
                if positive == "context":
                    shown = text[slice(*task.reranker_input.context_span(text, begin, end))].lower()
                    assert any(answer.lower() in shown for answer in answers[one.question]) is wanted
                else:
                    assert (normalise(text[begin:end]) in map(normalise, answers[one.question])) is wanted


@pytest.mark.parametrize("loss", ["pairwise", "pointwise"])
def test_a_phrase_reranker_learns_and_can_be_loaded(folder, searcher, tmp_path, loss):
    run(folder, tmp_path / "model", "--loss", loss, "--epochs", 24, "--validate-every", 16)
    history = json.loads((tmp_path / "model" / "training.json").read_text())["history"]
    assert max(entry["accuracy"] for entry in history) >= 0.8
    assert history[-1]["loss"] < history[1]["loss"]
    shown = RerankerInput.read(tmp_path / "model")
    assert shown == RerankerInput(context="3", title=True, separator=" [SEP] ")
    pair = ("when was the king crowned", shown("Kings", "The king of the river was crowned in 1066.", 37, 41))
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    with torch.no_grad():
        logits = model(**read_tokenizer(tmp_path / "model")(*pair, return_tensors="pt")).logits[0]
    score = logits[1] - logits[0] if loss == "pointwise" else logits[0]
    assert load_reranker(tmp_path / "model", max_length=100).predict([pair])[0] == pytest.approx(float(score), abs=1e-4)


def test_an_interrupted_training_ends_with_the_same_reranker(folder, searcher, tmp_path, interrupt):
    short = ["--max-steps", 5, "--save-every", 2, "--context", "1", "--no-title", "--encoder", folder / "retriever"]
    run(folder, tmp_path / "whole", *short)
    calls = interrupt(RerankerTask, "loss", 4)
    with pytest.raises(KeyboardInterrupt):
        run(folder, tmp_path / "cut", *short)
    run(folder, tmp_path / "cut", *short)
    assert len(calls) == 4 + 3
    for name in ("model.safetensors", "training.json", "tour-phrase-input.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "cut.partial").exists()


@pytest.mark.parametrize("max_length", [24, 4096])  # fewer than a question has; more than the model's 128 positions
def test_pairs_are_truncated_as_in_search(folder, searcher, tmp_path, max_length):
    task, seen = make_task(folder, max_length=max_length), []
    task.model.register_forward_pre_hook(lambda _, args, given: seen.append(given), with_kwargs=True)
    spans = (PhraseSpan("b", 2, 7), PhraseSpan("d", 4, 8))
    ways = {"who " * 140: "longest_first", "which river": "only_second"}
    task.loss([(question, *spans) for question in ways])
    length = min(max_length, 128)
    task.save(tmp_path)
    tokenizer, shown = read_tokenizer(tmp_path), RerankerInput.read(tmp_path)
    expected = [
        tokenizer(question, passage, truncation=way, max_length=length)["input_ids"]
        for passage in (shown(*searcher.passage(span), span.begin, span.end) for span in spans)
        for question, way in ways.items()
    ]
    rows = [ids[mask == 1].tolist() for ids, mask in zip(seen[0]["input_ids"], seen[0]["attention_mask"], strict=True)]
    assert rows == expected and len(rows[0]) == length
