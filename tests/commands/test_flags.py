"""Requests: one value for Python, for flags and for command lines; wrong values are refused in one sentence."""

import math
from dataclasses import fields
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.core.config import PRESETS, TourConfig
from tour_pyserini.core.method import METHODS
from tour_pyserini.data.runs import RUN_FORMATS
from tour_pyserini.errors import TourError
from tour_pyserini.flags import words
from tour_pyserini.index import IndexRequest, index_request
from tour_pyserini.phrases import reranker_input
from tour_pyserini.search import search_request
from tour_pyserini.search_request import SearchRequest

REQUESTS = [
    SearchRequest(topics="a folder/t.tsv", index="i", corpus="c.jsonl", hits=7, threads=2, batch_size=3),
    SearchRequest(topics="t.tsv", l2_norm=False, title=False, pooling="mean", query_prefix="", separator=" </s> "),
    SearchRequest(topics="t.tsv", trace="t.jsonl", trace_vectors=True, tag="-tag", l2_norm=True, index2=["a", "b"]),
    SearchRequest(topics="t", topics_format="kilt", output_format="kilt", context="3", nprobe=4, max_words=5),
    SearchRequest(topics="t.tsv", config=TourConfig("hard", gradient_clip=2.0, early_stopping=False)),
    SearchRequest(topics="t.tsv", config=TourConfig("rocchio", rocchio_gamma=-0.25, positives=7)),
    *(SearchRequest(topics="t.tsv", config=config) for config in [*map(TourConfig, METHODS), *PRESETS.values()]),
    IndexRequest(corpus="c", index="i", l2_norm=False, fields=("text",), hnsw=True, M=12, efC=20, overwrite=True),
    IndexRequest(corpus="c", index="i", factory="PQ4x4", vectors="other", prefix="-", l2_norm=True),
    IndexRequest(corpus="c", index="i", phrases=True, filter_threshold=-math.inf, fields=["text", "title"]),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request_: " ".join(words(request_.flags())))
def test_a_request_becomes_flags_and_words_and_comes_back(request_):
    read = search_request if isinstance(request_, SearchRequest) else index_request
    assert type(request_).from_flags(request_.flags()) == request_
    assert read(words(request_.flags())) == request_


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(
    topics=text,
    query_prefix=st.none() | text,
    hits=st.integers(1, 10**6),
    depth=st.integers(1, 99),
    tau=st.floats(1e-6, 1e6),
    momentum=st.floats(0, 0.999),
    early_stopping=st.booleans(),
)
@settings(deadline=None, max_examples=50)
def test_any_text_and_number_survives_the_command_line(
    topics, query_prefix, hits, depth, tau, momentum, early_stopping
):
    config = TourConfig("hard", depth=depth, tau=tau, momentum=momentum, early_stopping=early_stopping)
    request_ = SearchRequest(topics=topics, query_prefix=query_prefix, hits=hits, config=config)
    assert search_request(words(request_.flags())) == request_


def test_flags_have_only_what_differs_from_the_defaults():
    assert SearchRequest(topics="t").flags() == {"topics": "t", "method": "tour"}
    request_ = SearchRequest(topics="t", no_cache=True, config=TourConfig("hard", depth=30))
    assert request_.flags() == {"topics": "t", "no-cache": True, "method": "hard", "depth": 30}


SEARCH, INDEX = {"topics": "t"}, {"corpus": "c", "index": "i"}
REFUSED = [
    (SEARCH, {"hits": 0}, "--hits must be a whole number above 0, not 0"),
    (SEARCH, {"hits": None}, "--hits is missing"),
    (SEARCH, {"index": ["a"]}, "--index must be text"),
    (SEARCH, {"no_cache": "yes"}, "--no-cache must be true or false"),
    (SEARCH, {"output_format": "my-csv"}, f"--output-format must be one of {', '.join(RUN_FORMATS)}"),
    (SEARCH, {"config": "method=hard"}, "config is a TourConfig"),
    (SEARCH, {"cache": "c", "no_cache": True}, "--cache and --no-cache"),
    (SEARCH, {"trace_vectors": True}, "without --trace"),
    (SEARCH, {"encoder2": "x"}, "--encoder2 names 1 and --index2 0"),
    (SEARCH, {"tag": "two words"}, "--tag 'two words'"),
    (SEARCH, {"output_format": "kilt"}, "--topics-format kilt"),
    (INDEX, {"corpus": None}, "--corpus is missing"),
    (INDEX, {"fields": ("title", "body")}, "--fields must be one of title, text"),
    (INDEX, {"factory": "SQ8", "hnsw": True}, "--hnsw and --factory"),
    (INDEX, {"filter_threshold": 1.0}, "--filter-threshold is only for --phrases"),
    (INDEX, {"phrases": True, "pooling": "cls"}, "--pooling is not for --phrases"),
    (INDEX, {"phrases": True, "bm25": True}, "--bm25 is not for --phrases"),
]
WRONG_FLAGS = [
    ({}, "--topics is missing"),
    ({**SEARCH, "hit": 3}, "there is no flag --hit"),
    ({**SEARCH, "method": "hard", "step": 3}, "the method hard has no setting 'step'"),
    ({**SEARCH, "preset": "official", "config": "c.toml"}, "--preset and --config"),
    ({**SEARCH, "prf_method": "rocchio"}, "give --prf-depth too"),
    ({**SEARCH, "prf_depth": 3, "prf_method": "rocchio", "method": "hard"}, "--prf-method rocchio and --method"),
]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((partial(SearchRequest if given is SEARCH else IndexRequest, **given | values), message)
          for given, values, message in REFUSED),
        *((partial(SearchRequest.from_flags, flags), message) for flags, message in WRONG_FLAGS),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused_in_one_sentence(make, message):
    with pytest.raises(TourError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_flags_have_the_names_that_pyserini_gives_settings():
    def config(**flags):
        return SearchRequest.from_flags({"topics": "t", **flags}).config

    assert config(**{"prf-depth": 5}) == TourConfig("average", depth=5)
    assert config(**{"prf-depth": 5, "prf-method": "rocchio"}) == TourConfig("rocchio", depth=5)
    assert config(**{"prf-depth": 5, "prf-method": "rocchio", "method": "rocchio"}) == TourConfig("rocchio", depth=5)
    assert config(**{"prf-depth": 0, "prf-method": "rocchio"}) == TourConfig()  # as in Pyserini: no feedback
    assert config(**{"prf-depth": 5, "method": "hard"}) == TourConfig("hard", depth=5)
    assert config(method="rocchio", rocchio_topk=4) == TourConfig("rocchio", positives=4)
    assert config(preset="official", depth="7") == TourConfig.preset("official").replace(depth=7)


def test_the_words_of_flags_are_those_of_the_modules_that_read_them():
    choices = {item.name: item.metadata.get("choices") for item in fields(SearchRequest)}
    assert choices["context"] == reranker_input.CONTEXTS
