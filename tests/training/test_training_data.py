"""Questions, answers and passages for training."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.data.text_spans import word_offsets
from tour_pyserini.encoders.phrases.phrase_settings import EncoderSettings
from tour_pyserini.errors import TourError
from tour_pyserini.training.phrase_task import training_passages
from tour_pyserini.training.training_examples import answer_spans, described, read_examples, read_sources, split


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("Linda Davis sang; LINDA  DAVIS won.", ["linda davis"], ["Linda Davis", "LINDA  DAVIS"]),
        ("in the mid-10th century", ["Mid - 10th century", "mid"], ["mid", "mid-10th century"]),
        ("caf\u00e9 or cafe\u0301", ["cafe\u0301"], ["caf\u00e9", "cafe\u0301"]),
        ("afterwards", ["after", ""], []),
        ("", ["a"], []),
    ],
)
def test_answers_in_a_text(text, answers, found):
    assert [text[begin:end] for begin, end in answer_spans(text, answers)] == found


@given(st.text(max_size=30), st.data())
def test_every_stretch_of_words_is_found_where_it_is(text, data):
    words = word_offsets(text).tolist()
    if words:
        first = data.draw(st.integers(0, len(words) - 1))
        last = data.draw(st.integers(first, len(words) - 1))
        span = (words[first][0], words[last][1])
        # Cut out of its text, a stretch may join into other words where a mark stood alone; then there is no answer.
        if len(word_offsets(text[slice(*span)])) == last - first + 1:
            assert span in answer_spans(text, [text[slice(*span)]])


def test_sources(place, tmp_path):
    examples = read_examples(place / "questions.jsonl", place / "corpus.jsonl")
    assert len(examples) == 7  # Atlantis is nowhere
    assert examples[0].title == "Nobel Prize"
    assert examples[0].docid.endswith("corpus.jsonl:a")
    lines = [
        {"_id": "x", "text": "which river", "answers": ["Rhine"]},
        {"_id": "y", "question": "what", "answer": "blue", "context": "It is blue.", "title": "Colours"},
    ]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nx\tb\t1\nx\ta\t0\n")
    examples = read_examples(tmp_path / "other.jsonl", place / "corpus.jsonl", tmp_path / "qrels.tsv")
    assert [(one.question, one.title) for one in examples] == [("which river", "Rivers"), ("what", "Colours")]
    assert len(read_sources([[str(place / "questions.jsonl"), str(place / "corpus.jsonl")]] * 2)) == 14


def test_data_is_described_by_content_where_it_is_a_file(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4's example
    assert described([["dpr-nq-dev"], [str(tmp_path / "a")]]) == [{"dpr-nq-dev": None}, {str(tmp_path / "a"): digest}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"question": "who", "answers": ["x"]}, "line 1 has no `context`"),
        ({"question": " ", "answers": ["x"], "context": "x"}, "line 1 has no question"),
        ({"question": "who", "answers": [1], "context": "x"}, "list of strings as its answers"),
        ({"question": "who", "answers": ["x"], "context": "y"}, "no question whose answer stands in its passage"),
    ],
)
def test_bad_data_is_named(tmp_path, line, message):
    (tmp_path / "bad.jsonl").write_text(json.dumps(line))
    with pytest.raises(TourError, match=message):
        read_examples(tmp_path / "bad.jsonl")


def test_the_split_holds_out_whole_passages(place):
    examples = read_examples(place / "questions.jsonl", place / "corpus.jsonl")
    kept, held = split(examples, share=0.3, most=100, seed=1)
    assert not {one.docid for one in kept} & {one.docid for one in held}
    assert len(kept) + len(held) == len(examples)
    assert split(examples, share=0.3, most=100, seed=1) == (kept, held)
    assert len(split(examples, share=0.3, most=1, seed=1)[1]) == 1
    with pytest.raises(TourError, match="one passage cannot be both"):
        split(examples[:1], share=0.3, most=1, seed=1)


@pytest.mark.parametrize(("max_length", "questions"), [(64, 7), (24, 5)])  # two answers stand where stretches meet
def test_passages_know_where_their_answers_are(place, max_length, questions):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place / "base")
    examples = read_examples(place / "questions.jsonl", place / "corpus.jsonl")
    settings = EncoderSettings(max_length=max_length, stride=4)
    passages = training_passages(examples, tokenizer, settings)
    assert sum(len(passage.questions) for passage in passages) == questions
    for passage in passages:
        for _, answers in passage.questions:
            starts, ends = passage.gold(answers)
            words = tokenizer.convert_ids_to_tokens(passage.inputs["input_ids"])
            first = {answer.lower()[0] for answer in answers}
            assert all(words[start].lstrip("#")[0] in first for start in starts)
            assert len(starts) >= 1 <= len(ends)
