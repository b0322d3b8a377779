import json
import logging
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyserini.eval.evaluate_dpr_retrieval import SimpleTokenizer, has_answers

from tour_pyserini.data.documents import Passage, one_line_parts
from tour_pyserini.data.texts import LuceneTexts
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.answer_matching import (
    all_answer_texts,
    answers_are_patterns,
    matcher_for,
    warn_about_unusable_answers,
)
from tour_pyserini.evaluation.answer_qrels import CHUNK, Candidate, match_passages

TOKENIZER = SimpleTokenizer()

# Few letters, so that answers are often in the text; accents, composed or not; punctuation and white space.
words = st.text("abAB éÉe\u0301İß.,-'\n\t\u200b1", max_size=6)


@given(st.lists(st.lists(words, max_size=3), max_size=4), st.text("abAB éÉe\u0301İß.,-'\n\t\u200b1", max_size=20))
@example([["a b"], ["b"], ["a"]], "A  B")
@example([[""], ["\u200b"], ["x"]], "")
def test_tokens_match_as_pyserini_matches_them(answers, text):
    expected = {at for at, each in enumerate(answers) if has_answers(text, each, TOKENIZER)}
    assert matcher_for(answers).matches(text) == expected


@given(
    st.lists(st.lists(st.sampled_from(["a.b", "^b", "a$", "(", "é+", "[ab]{2}", "a|c", "", "B\\b"]), max_size=2)),
    st.text("abAB é\n", max_size=12),
)
def test_patterns_match_as_pyserini_matches_them(answers, text):
    expected = {at for at, each in enumerate(answers) if has_answers(text, each, TOKENIZER, regex=True)}
    assert matcher_for(answers, regex=True).matches(text) == expected


@pytest.mark.parametrize("regex", [False, True])
def test_only_the_given_questions_are_tried(regex):
    matcher = matcher_for([["a"], ["b"], ["a"]], regex=regex)
    assert matcher.matches("a b") == {0, 1, 2}
    assert matcher.matches("a b", [1, 2]) == {1, 2}
    assert matcher.matches("a", [1]) == set()


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("dpr-curated-test", True),
        ("data/topics.dpr.curated.test.txt", True),
        ("CuratedTREC-test.json", True),
        ("TREC-test.tsv", True),
        ("trec-test.qa.csv", True),
        ("trec-test", True),
        ("topics.nq.trec", False),
        ("trec-dl.tsv", False),
        ("dpr-nq-test", False),
        ("curated/nq.txt", False),
        ("electrecord.jsonl", False),
    ],
)
def test_topics_with_regular_expressions_are_known_by_name(name, patterns):
    assert answers_are_patterns(name) is patterns


def test_unusable_answers_are_logged(caplog):
    questions = [Question("q1", "who", ["fine", ""]), Question("q2", "why", ["fine", "("])]
    with caplog.at_level(logging.WARNING):
        warn_about_unusable_answers(questions)
        warn_about_unusable_answers(questions, regex=True)
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "the answer '' of question q1 has no token and matches every text",
        "the answer '(' of question q2 is not a valid regular expression and never matches",
    ]


def test_titles_are_not_part_of_the_text():
    assert one_line_parts(Passage("Title", "one\ntwo")) == ("Title", "one two")
    assert one_line_parts(Passage("Title", "text", "\n")) == ("Title", "text")
    assert one_line_parts("no title") == ("", "no title")
    assert list(all_answer_texts({"d": Passage("Title", "text"), "e": "plain"})) == [("d", "text"), ("e", "plain")]


def test_lucene_documents_have_their_title_on_the_first_line():
    class Searcher:
        num_docs = 1

        def doc(self, number):
            contents = '"Ann Lee"\nShe lived.'
            raw = json.dumps({"id": "7", "contents": contents})
            return SimpleNamespace(docid=lambda: "7", raw=lambda: raw, contents=lambda: contents)

    assert list(all_answer_texts(LuceneTexts(Searcher(), "index"))) == [("7", "She lived.")]


def test_a_docid_with_white_space_is_refused():
    with pytest.raises(TourError, match="white space in the document id 'a b'"):
        list(all_answer_texts({"a b": "text"}))


@pytest.mark.parametrize("regex", [False, True])
def test_the_number_of_processes_does_not_change_the_matches(regex):
    answers = [[str(number)] for number in range(50)]
    texts = [Candidate(f"d{at}", f"{at % 60} and {at % 7}") for at in range(2 * CHUNK + 1)]
    alone, together = (list(match_passages(texts, answers, regex=regex, processes=n)) for n in (1, 2))
    assert [match.docid for match in alone] == [text.docid for text in texts]
    assert alone == together
    assert alone[8].questions == {8, 1}
    with pytest.raises(TourError, match="at least 1 process"):
        match_passages(texts, answers, processes=0)


def test_passages_are_read_as_they_are_needed():
    read = []

    def candidates():
        for at in range(20 * CHUNK):
            read.append(at)
            yield Candidate(str(at), "a")

    matches = match_passages(candidates(), [["a"]], processes=2)
    next(matches)
    assert len(read) < 15 * CHUNK
    matches.close()
