"""Answers that are regular expressions have Python's meaning, in bounded time."""

import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation import answer_patterns
from tour_pyserini.evaluation.answer_patterns import AnswerPattern

ATOMS = ("a", "K", "ſ", "é", "[a-c]", "[^a]", r"\d", r"\w", r"\s", r"\S", r"\W", ".", "^", "$", r"\b", r"\B", "(a|b)")
ATOMS += (r"(a)\1", "(?=a)", "(?i:a)", r"[\d_]", r"[^\w]", r"\.", "y{,2}", r"\n", "{", "[[:alpha:]]", r"\A", r"\Z")
REPEATS = ("", "", "", "*", "+", "?", "*?", "{2}", "{,1}")
TEXTS = ("", "a", "ab\nba", "aé1 b", "K1_a", "ſ k K", "x\x1cb\x0b", "a\u2003b٣", "{}", "yy", "abc ABC", "-1.5")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATS)), min_size=1, max_size=5))
def test_patterns_mean_what_they_mean_in_python(parts):
    pattern = "".join(atom + repeat for atom, repeat in parts)
    try:
        python = re.compile(unicodedata.normalize("NFD", pattern), re.IGNORECASE | re.MULTILINE)
    except re.error:
        with pytest.raises(ValueError):
            AnswerPattern(pattern)
        return
    ours = AnswerPattern(pattern)
    for text in map(lambda text: unicodedata.normalize("NFD", text), TEXTS):
        assert ours.search(text) == (python.search(text) is not None)
        assert ours.match(text) == (python.match(text) is not None)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)+$", "(a|aa)+$", "(.*a){12}$"])
def test_patterns_that_take_python_years_are_matched_at_once(pattern):
    assert not AnswerPattern(pattern).search("a" * 3000 + "b")


@pytest.mark.parametrize("text", ["a" * 3000 + "b", "é" + "a" * 3000 + "b"])
def test_what_needs_backtracking_has_a_time_limit(monkeypatch, text):
    monkeypatch.setattr(answer_patterns, "SECONDS", 0.1)
    with pytest.raises(TourError, match=r"regular expression '\(a\+\)\+.*' took more than 0.1 s on one text"):
        AnswerPattern(r"(a+)+\b(?=c)$").search(text)


def test_other_threads_have_the_time_limit_too(monkeypatch):
    monkeypatch.setattr(answer_patterns, "SECONDS", 0.2)
    with ThreadPoolExecutor(1) as thread:
        slow = thread.submit(AnswerPattern(r"(a+)+\b(?=c)$").search, "a" * 3000 + "b")
        with pytest.raises(TourError, match=r"took more than 0.2 s on one text"):
            slow.result(timeout=60)
        quick = AnswerPattern(r"(é|b)\1\d(?=c)")
        texts = ["x éé1c \ud800", "éb1c", "ÉÉ٣C", "\n"]
        expected = [True, False, True, False]
        assert [thread.submit(quick.search, unicodedata.normalize("NFD", text)).result() for text in texts] == expected
        assert not thread.submit(quick.match, "x bb1c").result()
