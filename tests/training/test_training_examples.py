"""Training examples: reading, splitting, and where answers are."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_index import word_offsets
from tour_pyserini.train import TrainRequest
from tour_pyserini.training.examples import answer_spans, training_examples


def examples_of(*source):
    request = {"base": "b", "output": "o", "data": [[*map(str, source)]]}
    return training_examples(TrainRequest(**request, validation=request["data"]))[0]


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("Linda Davis sang; LINDA  DAVIS won.", ["linda davis"], ["Linda Davis", "LINDA  DAVIS"]),
        ("in the mid-10th century", ["Mid - 10th century", "mid"], ["mid", "mid-10th century"]),
        ("caf\u00e9 or cafe\u0301", ["cafe\u0301"], ["caf\u00e9", "cafe\u0301"]),
        ("afterwards", ["after", ""], []),
    ],
)
def test_answer_spans_by_hand(text, answers, found):
    assert [text[begin:end] for begin, end in answer_spans(text, answers)] == found


@given(st.text(max_size=30), st.data())
def test_every_sequence_of_words_is_found_where_it_is(text, data):
    if words := word_offsets(text).tolist():
        first = data.draw(st.integers(0, len(words) - 1))
        last = data.draw(st.integers(first, len(words) - 1))
        span = (words[first][0], words[last][1])
        # Cut out of its text, a sequence may be split into other words (a lone combining mark); then it is no answer.
        if len(word_offsets(text[slice(*span)])) == last - first + 1:
            assert span in answer_spans(text, [text[slice(*span)]])


def test_examples_from_gold_ids_contexts_and_qrels(folder, tmp_path):
    examples = examples_of(folder / "questions.jsonl", folder / "corpus.jsonl")
    assert len(examples) == 7  # Atlantis is in no passage
    assert examples[0].title == "Nobel Prize" and examples[0].docid.endswith("corpus.jsonl:a")
    lines = [
        {"_id": "x", "text": "which river", "answers": ["Rhine"]},
        {"_id": "unjudged", "text": ""},
        {"_id": "y", "question": "what", "answer": "blue", "context": "It is blue.", "title": "Colours"},
    ]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nx\tb\t1\nx\ta\t0\n")
    examples = examples_of(tmp_path / "other.jsonl", folder / "corpus.jsonl", tmp_path / "qrels.tsv")
    assert [(one.question, one.title) for one in examples] == [("which river", "Rivers"), ("what", "Colours")]


def test_validation_holds_out_whole_passages_or_has_sources_of_its_own(folder):
    source = [str(folder / "questions.jsonl"), str(folder / "corpus.jsonl")]
    request = {"base": "b", "output": "o", "data": [source, source]}
    kept, held = training_examples(TrainRequest(**request, validation_share=0.3))
    assert not {one.docid for one in kept} & {one.docid for one in held} and len(kept) + len(held) == 14
    assert training_examples(TrainRequest(**request, validation_share=0.3)) == (kept, held)
    kept, held = training_examples(TrainRequest(**request, validation=[source], validation_questions=3))
    assert (len(kept), len(held)) == (14, 3)
    with pytest.raises(TourError, match="--validation"):
        training_examples(TrainRequest(**request, validation_share=1.0))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"question": "who", "answers": ["x"]}, "line 1 has no `context`"),
        ({"question": "who", "answers": ["x"], "gold": "d2"}, "line 1 needs document 'd2'"),
        ({"question": "who", "answers": ["x"], "context": "y"}, "no question with an answer"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused(tmp_path, line, message):
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "d1", "text": "x"}))
    (tmp_path / "bad.jsonl").write_text(json.dumps(line))
    corpus = [tmp_path / "corpus.jsonl"] if "gold" in line else []
    with pytest.raises(TourError, match=message):
        examples_of(tmp_path / "bad.jsonl", *corpus)
