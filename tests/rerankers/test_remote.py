"""Re-rankers behind HTTP, against a real service on loopback: addresses, dialects, batches, faults and lies."""

import logging
import signal
import time

import numpy as np
import pytest
import reranker_service
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running_service import running_service

from tour_pyserini import TourError, load_reranker
from tour_pyserini.rerankers import remote

PAIRS = [(f"query {i % 5}", f"passage {i % 37}") for i in range(100)]
EXPECTED = np.array([reranker_service.logits(query, [passage])[0] for query, passage in PAIRS], dtype=np.float64)


pytestmark = pytest.mark.usefixtures("http")

VLLM = [f"vllm{path}" for path in ("", "/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank")]
MORE = ["cohere/v1/rerank?model=m&scores=raw", "vllm/score?model=tiny/model", "small/vllm/score?scores=raw"]


@pytest.mark.parametrize("path", ["tei/rerank", "tei", "tei/", *VLLM, *MORE])
def test_raw_scores_come_back_to_the_last_bit_in_any_batches(service, path):
    """A request that is too large for the service, as for `small`, is split."""
    batches = [{"threads": 1}, {"threads": 3, "batch_size": 1}, {"batch_size": 1000}]
    for options in [{}, *(batches if path == "vllm/score" else [])]:
        assert np.array_equal(load_reranker(service.url(path), **options).predict(PAIRS), EXPECTED)


@pytest.mark.parametrize("path", ["cohere/v1/rerank", "cohere/v2/rerank", "cohere/rerank"])
def test_probabilities_become_logits_and_it_is_said_once(service, path, caplog):
    reranker = load_reranker(service.url(f"{path}?model=m"))
    for _ in range(2):
        assert reranker.predict(PAIRS) == pytest.approx(EXPECTED, abs=1e-4)
    assert caplog.text.count("gives probabilities") == 1


def test_fingerprint_is_of_the_model_and_not_of_the_host(service):
    def fingerprint(running, path):
        return load_reranker(running.url(path)).fingerprint

    with running_service() as other:
        paths = ("tei/rerank", "tei", "small/tei")
        same = {fingerprint(running, path) for running in (service, other) for path in paths}
        assert len(same) == 1
        other.get("model/another")
        others = ("vllm/score", "folder/tei?revision=1", "folder/tei?revision=2", "tei?scores=probability")
        gates = ("cohere/v1/rerank?model=a", "cohere/v1/rerank?model=b", "cohere/v1/rerank?model=b&scores=raw")
        different = same | {fingerprint(other, path) for path in ("tei", "tei?revision=2")}
        different |= {fingerprint(service, path) for path in others + gates}
    assert len(different) == 10
    assert fingerprint(service, "vllm/score") == fingerprint(service, "vllm/rerank")


def test_a_batch_is_one_query_and_no_larger_than_the_service_takes(service):
    before = service.get("counts")["requests"].get("/count/tei/rerank", 0)
    load_reranker(service.url("count/tei")).predict(PAIRS)
    seen = service.get("counts")
    distinct = {query: {p for q, p in PAIRS if q == query} for query, _ in PAIRS}
    needed = sum(-(-len(passages) // reranker_service.LIMIT) for passages in distinct.values())
    assert seen["requests"]["/count/tei/rerank"] - before == needed + 2  # two of them found out about raw scores
    assert seen["largest"]["/count/tei/rerank"] == reranker_service.LIMIT


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=12))
def test_any_text_can_be_sent(service, pairs):
    plain = load_reranker(service.url("vllm?scores=raw"))
    sent = [[text.encode("utf-8", "replace").decode() for text in pair] for pair in pairs]
    expected = [reranker_service.logits(query, [passage])[0] for query, passage in sent]
    assert np.array_equal(plain.predict(pairs), np.array(expected, dtype=float))


@pytest.mark.parametrize("fault", ["failing", "busy", "hangup", "squared", "stall"])
def test_what_passes_is_tried_again(service, fault, caplog):
    assert np.array_equal(
        load_reranker(service.url(f"{fault}/tei?deadline=0.2"), threads=1).predict(PAIRS[:9]), EXPECTED[:9]
    )
    assert "trying again" in caplog.text


def test_what_arrived_before_a_failure_is_not_lost(service):
    reranker = load_reranker(service.url("ending/vllm/score?scores=raw&retries=0"), threads=1, batch_size=5)
    got = []
    with pytest.raises(TourError, match="status 500: out of memory"):
        got += (part for part in reranker.predict_parts(PAIRS))
    assert [len(positions) for positions, _ in got] == [5, 5, 5]


def test_what_a_replaced_model_gave_is_not_handed_over(monkeypatch):
    monkeypatch.setattr(remote, "CONFIRM_EVERY", 0)
    with running_service() as service:
        reranker = load_reranker(service.url("tei"), threads=1)
        assert np.array_equal(reranker.predict(PAIRS), EXPECTED)
        service.get("model/another")
        with pytest.raises(TourError, match="runs another abc123 float32 now, and ran tiny/model abc123 float32"):
            next(reranker.predict_parts(PAIRS))


def test_the_key_is_sent_and_never_shown(service, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(remote.KEY_VARIABLE, "open sesame")
    reranker = load_reranker(service.url("key/tei"))
    assert np.array_equal(reranker.predict(PAIRS), EXPECTED)
    monkeypatch.setenv(remote.KEY_VARIABLE, "wrong secret")
    with pytest.raises(TourError, match=r"Bearer \*\*\*\); check the key in TOUR_PYSERINI_RERANKER_KEY") as raised:
        load_reranker(service.url("key/tei"))
    monkeypatch.setenv(remote.KEY_VARIABLE, "sésame")
    with pytest.raises(TourError, match="cannot be sent") as unsent:
        load_reranker(service.url("tei"))
    assert "sésame" not in str(unsent.value)
    monkeypatch.setenv(remote.KEY_VARIABLE, "swordfish swordfish")
    with pytest.raises(TourError, match="refuses access") as cut:
        load_reranker(service.url("echo/tei"))
    assert "sw" not in str(cut.value)
    shown = f"{raised.value} {reranker.fingerprint} {caplog.text}"
    assert "open sesame" not in shown
    assert "wrong secret" not in shown
    monkeypatch.delenv(remote.KEY_VARIABLE)
    assert load_reranker(service.url("tei")).fingerprint == reranker.fingerprint


def test_after_an_interruption_nothing_more_is_asked_for(service, monkeypatch):
    monkeypatch.setattr(remote, "CONFIRM_EVERY", 0)
    reranker = load_reranker(service.url("slow/vllm/score?scores=raw"), threads=1, batch_size=1)
    reranker.on_progress = lambda _: signal.default_int_handler(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        reranker.predict(PAIRS)
    time.sleep(0.3)  # the request under way may reach the service yet
    asked = service.counts()["/slow/vllm/score"]
    time.sleep(0.3)  # time for six more requests
    assert service.counts()["/slow/vllm/score"] == asked < 10


@pytest.mark.parametrize(
    "fault", ["missing", "duplicate", "beyond", "negative", "nan", "huge", "text", "true", "nameless"]
)
@pytest.mark.parametrize("path", ["tei/rerank?scores=raw", "vllm/score?scores=raw", "cohere/v1/rerank?model=m"])
def test_a_lie_is_refused(service, fault, path):
    order = np.argsort(-reranker_service.logits("q", [f"passage {i}" for i in range(8)]))
    with pytest.raises(TourError, match="wrong answer"):
        load_reranker(service.url(f"{fault}/{path}")).predict([("q", f"passage {i}") for i in order])


@pytest.mark.parametrize(
    ("path", "options", "word"),
    [
        ("shapeless/tei/rerank?scores=raw", {}, "not a list"),
        ("prose/vllm/score?scores=raw", {}, "not JSON"),
        ("broken/tei?retries=1", {}, "2 tries.*out of memory"),
        ("stall/cohere/v1/rerank?model=m&deadline=0.1&retries=0", {}, "within 0.1 seconds"),
        ("later/cohere/rerank?model=m", {}, "86400 seconds"),
        ("packed/tei", {}, "gzip, gzip"),
        ("endless/tei", {}, "larger than 32 MiB"),
        ("moved/tei", {}, "elsewhere.example"),
        ("key/tei", {}, "TOUR_PYSERINI_RERANKER_KEY"),
        ("encoder/tei", {}, "no re-ranker"),
        ("folder/tei", {}, "revision=WORD"),
        ("deaf/tei", {}, "scores=raw"),
        ("logits/cohere/rerank?model=m", {}, "no probability"),
        ("cohere/v1/rerank", {}, "model=NAME"),
        ("cohere", {}, "model=NAME"),
        ("tei?dialect=vllm", {}, "/v1/models"),
        ("vllm?dialect=tei", {}, "does not speak"),
        ("tei?model=other", {}, "not other"),
        ("vllm/score?model=other", {}, "does not serve other"),
        ("tei", {"max_length": 128}, "max_length"),
        ("ftp://host/rerank", {}, "not the address"),
        ("http://host:none/rerank", {}, "not the address"),
        ("http://host/rerank?dialect=cohera", {}, "dialect"),
        ("http://host/rerank?deadline=0", {}, "deadline"),
        ("http://user:s3cret@host/rerank", {}, "password"),
        ("http://host/rerank?api_key=s3cret", {}, "api_key"),
        ("http://127.0.0.1:1/rerank", {}, "3 tries"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(service, path, options, word):
    with pytest.raises(TourError, match=word) as raised:
        load_reranker(path if "://" in path else service.url(path), **options).predict(PAIRS)
    assert "\n" not in str(raised.value) and "s3cret" not in str(raised.value)
