"""Addresses of re-ranking services: what they say, what is refused, and that secrets are not repeated."""

import pytest

from tour_pyserini import TourError, load_reranker
from tour_pyserini.rerankers.remote import is_service_address, parse_address


def parse(text):
    return parse_address(text, dialects=("tei", "vllm", "cohere"))


@pytest.mark.parametrize(
    ("text", "base", "endpoint"),
    [
        ("http://host:8080/rerank", "http://host:8080", "/rerank"),
        ("http://host:8080", "http://host:8080", None),
        ("http://host/", "http://host", None),
        ("https://gate.example/team/a/v1/rerank/", "https://gate.example/team/a", "/v1/rerank"),
        ("HTTP://[::1]:80/v2/rerank", "http://[::1]:80", "/v2/rerank"),
        ("http://host/v1/score", "http://host", "/v1/score"),
        ("http://host/my-rerank", "http://host/my-rerank", None),
    ],
)
def test_base_and_endpoint(text, base, endpoint):
    address = parse(text)
    assert (address.base, address.endpoint) == (base, endpoint)
    assert str(address) == base + (endpoint or "")


def test_options_are_read_and_not_part_of_the_address():
    address = parse("http://host/rerank?model=a%2Fb&dialect=cohere&scores=raw&revision=3&deadline=2.5&retries=0")
    assert str(address) == "http://host/rerank"
    assert (address.model, address.dialect, address.scores, address.revision) == ("a/b", "cohere", "raw", "3")
    assert address.patience == (2.5, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/rerank", "is not the address of a re-ranking service"),
        ("file:///etc/passwd", "is not the address of a re-ranking service"),
        ("http:///rerank", "is not the address"),
        ("http://host:none/rerank", "is not the address"),
        ("http://[::1/rerank", "is not the address"),
        ("http://host/rerank?dialect=cohera", "option dialect .* is one of tei, vllm, cohere, not 'cohera'"),
        ("http://host/rerank?scores=logits", "is one of raw, probability"),
        ("http://host/rerank?deadline=0", "deadline .* is a number from 0.001 to 3600, not '0'"),
        ("http://host/rerank?deadline=nan", "deadline"),
        ("http://host/rerank?retries=-1", "retries .* is a number from 0 to 20"),
        ("http://host/rerank?retries=1.5", "retries"),
        ("http://host/rerank?model=", "an option without a value"),
        ("http://host/rerank?model=a&model=b", "option model twice"),
        ("http://host/rerank#model=a", "a part after #"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(TourError, match=message):
        load_reranker(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://user:s3cret@host/rerank",
        "http://s3cret@host/rerank",
        "http://host/rerank?api_key=s3cret",
        "ftp://user:s3cret@host",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(text):
    with pytest.raises(TourError) as raised:
        load_reranker(text)
    assert "s3cret" not in str(raised.value)


def test_names_and_folders_are_no_addresses():
    assert not any(
        map(is_service_address, ["default", "cross-encoder/ms-marco-MiniLM-L-6-v2", "./http", "C:\\models", 3])
    )
