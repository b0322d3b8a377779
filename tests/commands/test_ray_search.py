"""Searches spread over the workers of a real Ray cluster: the bytes of one process, also when workers are killed."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import toy_collection
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError
from tour_pyserini import ray_search as ray_searching
from tour_pyserini.data.run_records import record_path
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest

ray, psutil = pytest.importorskip("ray"), pytest.importorskip("psutil")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


class Dies(HashReranker):
    """Kills its own process, as kill -9 does, the first times it is asked; `folder` remembers them."""

    def __init__(self, folder, *, times):
        super().__init__()
        self.folder, self.times = folder, times

    def predict(self, pairs):
        done = len(os.listdir(self.folder))
        if done < self.times:
            open(os.path.join(self.folder, f"{done}-{os.getpid()}"), "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().predict(pairs)


@pytest.fixture(scope="module")
def cluster():
    """Ray with two processors; workers get the classes of the tests by value, because they do not find the tests."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    ray.init(address="local", num_cpus=2, object_store_memory=100 << 20, include_dashboard=False, logging_level="ERROR")
    for module in (toy_collection, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)
    yield
    ray.shutdown()


@pytest.fixture
def request_(saved, tmp_path):
    """Seven topics in four batches."""
    return SearchRequest(
        **saved[1],
        **{"reranker": HashReranker(), "hits": 20, "batch_size": 2, "config": TourConfig("hard", depth=4)},
        **{"cache": tmp_path / "one.sqlite", "trace": tmp_path / "one.jsonl", "output": tmp_path / "one.trec"},
        output_queries=tmp_path / "one",
    )


def spread(request_, tmp_path, **changes):
    """The same request for Ray, with outputs and a score cache of its own."""
    outputs = {"cache": "ray.sqlite", "trace": "ray.jsonl", "output": "ray.trec", "output_queries": "ray"}
    paths = {name: tmp_path / file for name, file in outputs.items()}
    return replace(request_, **{"ray": "local", "ray_workers": 2, **paths, **changes})


def labels(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT key, logit FROM scores ORDER BY key").fetchall()


def assert_same_files(tmp_path):
    for name in ("{}.trec", "{}.jsonl", "{}/embedding.pkl"):
        one, other = ((tmp_path / name.format(word)).read_bytes() for word in ("one", "ray"))
        assert one == other and one
    records = [json.loads(record_path(tmp_path / f"{word}.trec").read_text()) for word in ("one", "ray")]
    assert records[0]["found"] == records[1]["found"] and records[0]["found"]["order"] == "exact"
    assert labels(tmp_path / "one.sqlite") == labels(tmp_path / "ray.sqlite")


def test_workers_write_the_bytes_of_one_process(cluster, request_, tmp_path):
    one, other = search(request_), search(spread(request_, tmp_path))
    assert_same_files(tmp_path)
    counts = [{**asdict(summary.costs), "seconds": None} for summary in (one, other)]
    assert counts[0] == counts[1] and counts[0]["scored"] > 20
    # All labels are there: none is bought again.
    assert search(spread(request_, tmp_path)).costs.scored == 0


def test_killed_workers_change_nothing_and_a_batch_that_always_kills_them_is_given_up(
    cluster, request_, tmp_path, monkeypatch
):
    search(request_)
    for name in ("some", "all"):
        (tmp_path / name).mkdir()
    search(spread(request_, tmp_path, reranker=Dies(str(tmp_path / "some"), times=2)))
    assert len(os.listdir(tmp_path / "some")) == 2
    assert_same_files(tmp_path)
    monkeypatch.setattr(ray_searching, "DEATHS", 0)
    failing = {
        "reranker": Dies(str(tmp_path / "all"), times=99),
        "cache": None,
        "no_cache": True,
        "output": "died.trec",
    }
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TourError, match=r"workers died 1 times while they searched the topics 'q0' to 'q1' "):
        search(spread(request_, tmp_path, **failing))
    assert not list(tmp_path.glob("died.trec*"))


def test_what_is_wrong_in_a_worker_is_one_sentence_and_so_is_a_cluster_that_is_too_small(cluster, request_, tmp_path):
    with pytest.raises(TourError, match=r"has room for 2 workers with 1 processors each, not for 3; change"):
        search(spread(request_, tmp_path, ray_workers=3))
    corpus = tmp_path / "corpus.jsonl"
    lines = [line for line in corpus.read_text().splitlines(keepends=True) if not line.startswith('{"_id": "d1')]
    corpus.write_text("".join(lines))
    with pytest.raises(TourError, match=r"'d1\d*'.*\(a Ray worker on .*\)$"):
        search(spread(request_, tmp_path))


def test_shards_can_be_searched_by_ray(cluster, request_, tmp_path):
    runs = [search(replace(each, shard="2/2")).output for each in (request_, spread(request_, tmp_path))]
    assert runs[0].read_bytes() == runs[1].read_bytes()


def test_an_address_where_nobody_is_and_a_missing_package_are_said(request_, tmp_path, monkeypatch):
    if ray.is_initialized():
        ray.shutdown()
    for address in ("ray://head:10001", "127.0.0.1:1"):
        with pytest.raises(TourError, match=f"no Ray cluster can be reached at {address} "):
            search(spread(request_, tmp_path, ray=address))
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "tour_pyserini.ray_search")
    with pytest.raises(TourError, match=r"pip install \"tour_pyserini\[ray\]\""):
        search(spread(request_, tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_no_process_and_no_file(saved, tmp_path, number):
    topics = tmp_path / "many.tsv"  # so many that the signal comes before the end
    topics.write_text("".join(f"q{i}\t{saved[0].queries[0]}\n" for i in range(5000)))
    flags = {**saved[1], "topics": topics, "output": tmp_path / "run.trec", "method": "dense"}
    flags |= {"batch_size": 1, "ray": "local", "ray_workers": 1}
    words = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    with subprocess.Popen(
        [sys.executable, "-m", "tour_pyserini.search", *words],
        **{"cwd": ROOT, "stderr": subprocess.PIPE, "text": True, "start_new_session": True},
        # A shell may have started the tests with some signals ignored, as it does in the background.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as command:
        while not started_by(command.pid, "ray::SearchWorker"):
            assert command.poll() is None
            time.sleep(0.05)
        processes = started_by(command.pid, "ray::")
        command.send_signal(number)
        message = command.communicate(timeout=60)[1]
    assert command.returncode == 128 + number
    assert "run the same command again to continue" in message and "Traceback" not in message
    assert not list(tmp_path.glob("run.trec*"))
    psutil.wait_procs(processes, timeout=90)  # Ray's own agents look every few seconds whether their node lives
    assert not [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def started_by(ancestor, name):
    """Processes whose command begins with `name`, among all that a process has started."""
    found = []
    for process in psutil.Process(ancestor).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found += [process] if " ".join(process.cmdline()).startswith(name) else []
    return found
