"""Re-rankers behind HTTP, against a real service on loopback: dialects, batches, faults and lies."""

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
from tour_pyserini.rerankers import CachedReranker, load_reranker_later
from tour_pyserini.rerankers.remote import remote_loading, remote_reranker
from tour_pyserini.support import http_client

PAIRS = [(f"query {i % 5}", f"passage {i % 37}") for i in range(100)]
EXPECTED = np.array([reranker_service.logits(query, [passage])[0] for query, passage in PAIRS], dtype=np.float64)


@pytest.fixture(scope="module")
def service():
    with running_service() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(remote_loading.KEY_VARIABLE, raising=False)
    monkeypatch.setattr(http_client, "FIRST_WAIT", 0.001)


RAW = [
    "tei/rerank",
    "tei",
    "tei/",
    "vllm",
    "vllm/score",
    "vllm/v1/score",
    "vllm/rerank",
    "vllm/v1/rerank",
    "vllm/v2/rerank",
]


@pytest.mark.parametrize("path", [*RAW, "cohere/v1/rerank?model=m&scores=raw", "vllm/score?model=tiny/model"])
def test_raw_scores_come_back_to_the_last_bit(service, path):
    assert np.array_equal(load_reranker(service.url(path)).predict(PAIRS), EXPECTED)


@pytest.mark.parametrize("path", ["cohere/v1/rerank", "cohere/v2/rerank", "cohere/rerank"])
def test_probabilities_become_logits_and_it_is_said_once(service, path, caplog):
    reranker = load_reranker(service.url(f"{path}?model=m"))
    for _ in range(2):
        assert reranker.predict(PAIRS) == pytest.approx(EXPECTED, abs=1e-4)
    assert [record.message for record in caplog.records if "gives probabilities" in record.message] == [
        f"{service.url(path)} gives probabilities, not raw scores: labels are their logits, from -16.1 to 16.1, "
        "with fewer digits"
    ]


def test_certain_probabilities_stay_finite():
    logits = remote_reranker.RemoteReranker._logits(None, np.array([0.0, 0.25, 0.5, 1.0]))
    assert logits == pytest.approx([-16.118, np.log(1 / 3), 0, 16.118], abs=1e-3)


def test_fingerprint_is_of_the_model_and_not_of_the_host(service):
    def fingerprint(running, path):
        return load_reranker(running.url(path)).fingerprint

    with running_service() as other:
        same = {
            fingerprint(running, path) for running in (service, other) for path in ("tei/rerank", "tei", "small/tei")
        }
        assert len(same) == 1
        other.get("model/another")
        different = {
            *same,
            fingerprint(other, "tei"),
            fingerprint(other, "tei?revision=2"),
            fingerprint(service, "vllm/score"),
            fingerprint(service, "folder/tei?revision=1"),
            fingerprint(service, "folder/tei?revision=2"),
            fingerprint(service, "tei?scores=probability"),
            fingerprint(service, "cohere/v1/rerank?model=a"),
            fingerprint(service, "cohere/v1/rerank?model=b"),
            fingerprint(service, "cohere/v1/rerank?model=b&scores=raw"),
        }
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


def test_a_request_that_is_too_large_is_split(service):
    reranker = load_reranker(service.url("small/vllm/score?scores=raw"))
    assert np.array_equal(reranker.predict(PAIRS), EXPECTED)


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 3, "batch_size": 1}, {"batch_size": 1000}])
def test_scores_do_not_depend_on_batches_and_concurrency(service, options):
    assert np.array_equal(load_reranker(service.url("vllm/score"), **options).predict(PAIRS), EXPECTED)


@pytest.fixture(scope="module")
def plain(service):
    return load_reranker(service.url("vllm?scores=raw"))


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=12))
def test_any_text_can_be_sent(plain, pairs):
    expected = [
        reranker_service.logits(*(text.encode("utf-8", "replace").decode() for text in pair[:1]),
            [pair[1].encode("utf-8", "replace").decode()])[0]
        for pair in pairs
    ]  # fmt: skip
    assert np.array_equal(plain.predict(pairs), np.array(expected, dtype=float))


def test_half_a_surrogate_pair_is_sent_as_a_question_mark(service):
    scores = load_reranker(service.url("tei")).predict([("a\ud800", "b"), ("a?", "b")])
    assert scores[0] == scores[1]


def test_progress_counts_every_pair(service):
    reranker, counted = load_reranker(service.url("tei")), []
    reranker.on_progress = counted.append
    reranker.predict(PAIRS)
    assert sum(counted) == len(PAIRS)


@pytest.mark.parametrize("fault", ["failing", "busy", "hangup"])
def test_what_passes_is_tried_again(service, fault, caplog):
    assert np.array_equal(load_reranker(service.url(f"{fault}/tei"), threads=1).predict(PAIRS[:20]), EXPECTED[:20])
    assert "trying again" in caplog.text


def test_a_stall_ends_at_the_deadline_and_is_tried_again(service):
    reranker = load_reranker(service.url("stall/tei?deadline=0.2"), threads=1)
    assert np.array_equal(reranker.predict(PAIRS[:1]), EXPECTED[:1])


def test_a_stall_that_does_not_pass_is_one_sentence(service):
    with pytest.raises(TourError, match=r"no answer in one try \(it did not answer within 0.1 seconds\); start it"):
        load_reranker(service.url("stall/cohere/v1/rerank?model=m&deadline=0.1&retries=0")).predict(PAIRS[:1])


LIES = {
    "missing": "it has 7 scores for 8 passages",
    "duplicate": "the index 0 comes twice",
    "beyond": "a score has the index 8, and the passages have 0 to 7",
    "negative": "a score has the index -1",
    "nan": "score of index 0 is nan, not a finite number",
    "huge": "is 1e+300, not a finite number",
    "text": "is '0.5', not a finite number",
    "true": "is True, not a finite number",
    "nameless": "is None, not a finite number",
}


@pytest.mark.parametrize("fault", LIES)
@pytest.mark.parametrize("path", ["tei/rerank?scores=raw", "vllm/score?scores=raw", "cohere/v1/rerank?model=m"])
def test_a_lie_is_one_sentence(service, fault, path):
    pairs = [
        ("q", f"passage {i}") for i in np.argsort(-reranker_service.logits("q", [f"passage {i}" for i in range(8)]))
    ]
    with pytest.raises(TourError, match="gave a wrong answer") as raised:
        load_reranker(service.url(f"{fault}/{path}")).predict(pairs)
    assert LIES[fault] in str(raised.value)
    assert "\n" not in str(raised.value)


REFUSALS = {
    "shapeless/tei/rerank?scores=raw": "its scores are not a list",
    "prose/vllm/score?scores=raw": "is not JSON",
    "broken/tei?retries=1": r"gave no answer in 2 tries \(status 500: out of memory\)",
    "later/cohere/rerank?model=m": r"asks to wait for 86400 seconds \(status 429: Rate limit\)",
    "moved/tei": "sends requests on to http://elsewhere.example/rerank",
    "key/tei": r"refuses access \(status 401: wrong key None\); set the environment variable TOUR_PYSERINI",
    "encoder/tei": r"runs tiny/model, which is no re-ranker \(embedding\)",
    "folder/tei": "tells only a folder of its own, /data, as its model; add the option revision=WORD",
    "deaf/tei": "whether raw ones are asked for or not; say what they are by the option scores=raw",
    "deaf/vllm/score": "whether raw ones are asked for or not; say what they are by the option scores=raw",
    "logits/cohere/rerank?model=m": "which is no probability; if it gives raw scores, add the option scores=raw",
    "cohere/v1/rerank": r'does not tell which model it runs; add the model.*rerank\?model=NAME"',
    "cohere": "is neither text-embeddings-inference nor vLLM",
    "tei?dialect=vllm": "does not tell at /v1/models which model it runs",
    "vllm?dialect=tei": "does not speak text-embeddings-inference",
    "tei?model=other": "runs tiny/model, not other",
    "vllm/score?model=other": "does not serve other; it serves tiny/model",
}


@pytest.mark.parametrize("path", REFUSALS)
def test_what_cannot_be_used_is_one_sentence(service, path):
    with pytest.raises(TourError, match=REFUSALS[path]) as raised:
        load_reranker(service.url(path)).predict(PAIRS)
    assert "\n" not in str(raised.value)


def test_a_service_that_is_away_is_one_sentence():
    with running_service() as stopped:
        pass
    with pytest.raises(
        TourError, match=r"gave no answer in 3 tries .*; start it or check .* Labels that are kept cannot"
    ):
        load_reranker(stopped.url("tei/rerank"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 128}, "cuts long pairs itself, at 512 tokens; leave the maximum length out"),
        ({"backend": "onnx"}, "decides itself about backend; leave it out"),
        ({"precision": "int8"}, "decides itself about precision"),
        ({"prompt": "qwen3"}, "decides itself about prompt"),
    ],
)
def test_what_a_service_decides_itself_is_refused(service, options, message):
    with pytest.raises(TourError, match=message):
        load_reranker(service.url("tei"), **options)


def test_a_model_that_was_replaced_gives_no_labels(tmp_path):
    with running_service() as service:
        reranker = load_reranker(service.url("tei"))
        reranker.predict(PAIRS)
        service.get("model/another")
        with CachedReranker(reranker, tmp_path / "scores.sqlite") as cached:
            with pytest.raises(TourError, match="runs another abc123 float32 now, and ran tiny/model abc123 float32"):
                cached.predict(PAIRS)
            assert cached.stats().scores == 0


def test_parts_come_as_they_arrive_each_pair_once(service, monkeypatch):
    monkeypatch.setattr(remote_reranker, "CONFIRM_EVERY", 0)
    parts = list(load_reranker(service.url("slow/tei"), threads=1).predict_parts(PAIRS))
    assert len(parts) == 15
    assert sorted(np.concatenate([positions for positions, _ in parts])) == list(range(len(PAIRS)))
    for positions, scores in parts:
        assert np.array_equal(scores, EXPECTED[positions])


def test_what_arrived_before_a_failure_is_not_lost(service):
    reranker = load_reranker(service.url("ending/vllm/score?scores=raw&retries=0"), threads=1, batch_size=5)
    got = []
    with pytest.raises(TourError, match="status 500: out of memory"):
        got += (part for part in reranker.predict_parts(PAIRS))
    assert [len(positions) for positions, _ in got] == [5, 5, 5]


def test_what_a_replaced_model_gave_is_not_handed_over(monkeypatch):
    monkeypatch.setattr(remote_reranker, "CONFIRM_EVERY", 0)
    with running_service() as service:
        parts = load_reranker(service.url("slow/tei"), threads=1).predict_parts(PAIRS)
        next(parts)
        service.get("model/another")
        with pytest.raises(TourError, match="runs another abc123 float32 now"):
            list(parts)


def test_the_key_is_sent_and_never_shown(service, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(remote_loading.KEY_VARIABLE, "open sesame")
    reranker = load_reranker(service.url("key/tei"))
    assert np.array_equal(reranker.predict(PAIRS), EXPECTED)
    monkeypatch.setenv(remote_loading.KEY_VARIABLE, "wrong secret")
    with pytest.raises(
        TourError, match=r"wrong key Bearer \*\*\*\); check the key in TOUR_PYSERINI_RERANKER_KEY"
    ) as raised:
        load_reranker(service.url("key/tei"))
    shown = f"{raised.value} {reranker.description} {reranker.fingerprint} {caplog.text}"
    assert "open sesame" not in shown
    assert "wrong secret" not in shown
    monkeypatch.delenv(remote_loading.KEY_VARIABLE)
    assert load_reranker(service.url("tei")).fingerprint == reranker.fingerprint


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(service, monkeypatch):
    monkeypatch.setenv(remote_loading.KEY_VARIABLE, "sésame")
    with pytest.raises(TourError, match="cannot be sent; set it again") as raised:
        load_reranker(service.url("tei"))
    assert "sésame" not in str(raised.value)


def test_a_service_is_asked_again_by_the_next_run(service):
    assert load_reranker_later(service.url("tei")).description == load_reranker(service.url("tei")).description


def test_after_an_interruption_nothing_more_is_asked_for(service, monkeypatch):
    monkeypatch.setattr(remote_reranker, "CONFIRM_EVERY", 0)
    reranker = load_reranker(service.url("slow/vllm/score?scores=raw"), threads=1, batch_size=1)
    reranker.on_progress = lambda _: signal.default_int_handler(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        reranker.predict(PAIRS)
    asked = service.counts()["/slow/vllm/score"]
    time.sleep(0.3)  # time for six more requests
    assert service.counts()["/slow/vllm/score"] == asked < 10
