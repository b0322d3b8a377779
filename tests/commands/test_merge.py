"""Shards of a search, joined: the bytes of one search; missing, repeated and foreign shards are refused."""

import json
import os
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError
from tour_pyserini.data.run_records import record_path
from tour_pyserini.data.topics import TopicIterator
from tour_pyserini.merge import MergeRequest, Shard, merge
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest


@pytest.fixture
def request_(saved, tmp_path):
    """Seven topics in four batches."""
    return SearchRequest(
        **saved[1],
        **{"reranker": HashReranker(), "hits": 20, "batch_size": 2, "config": TourConfig("hard", depth=4)},
        **{"no_cache": True, "trace": tmp_path / "run.jsonl", "output": tmp_path / "run.trec"},
        output_queries=tmp_path / "vectors",
    )


def searched(request_, count, numbers=None):
    """The run files of shards."""
    return tuple(str(search(replace(request_, shard=f"{i}/{count}")).output) for i in numbers or range(1, count + 1))


FILES = ("run.trec", "run.jsonl", "vectors/embedding.pkl")


def contents(tmp_path):
    return [(tmp_path / name).read_bytes() for name in FILES]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_merged_shards_are_the_bytes_of_one_search(request_, tmp_path, count):
    one = search(request_)
    expected, record = contents(tmp_path), json.loads(record_path(one.output).read_text())
    for name in (*FILES, "run.trec.json"):
        (tmp_path / name).unlink()
    shards = searched(request_, count)
    assert not any((tmp_path / name).exists() for name in FILES)
    summary = merge(MergeRequest(shards=shards[::-1]))
    assert contents(tmp_path) == expected
    assert {**asdict(summary.costs), "seconds": 0} == {**asdict(one.costs), "seconds": 0}
    merged = json.loads(record_path(summary.output).read_text())
    for changing in ("made", "costs"):
        del record[changing], merged[changing]
    assert merged == record


def test_other_formats_are_joined_too(request_, tmp_path):
    request_ = replace(request_, output_format="msmarco", config=TourConfig("dense"), trace=None)
    search(request_)
    merge(MergeRequest(shards=searched(request_, 2), output=tmp_path / "other"))
    assert (tmp_path / "other").read_bytes() == (tmp_path / "run.trec").read_bytes()


def refused(word, *shards, **output):
    with pytest.raises(TourError, match=word):
        merge(MergeRequest(shards=shards, **output))


def test_files_beside_shards_that_were_moved_are_found_and_only_those_that_they_wrote(request_, tmp_path):
    search(request_)
    expected, moved = contents(tmp_path), tmp_path / "moved"
    shards = [str(moved / os.path.basename(shard)) for shard in searched(request_, 2)]
    moved.mkdir()
    for path in list(tmp_path.glob("*shard-*")):
        path.rename(moved / path.name)
    for name in FILES:
        (tmp_path / name).unlink()
    merge(MergeRequest(shards=shards))
    assert contents(tmp_path) == expected
    for name in ("run.jsonl.shard-2-of-2", "vectors.shard-2-of-2/embedding.pkl"):
        content = (moved / name).read_bytes()
        (moved / name).write_bytes((moved / name.replace("2-of", "1-of")).read_bytes())
        refused(r"is not the --[a-z-]+ that the shard .*search again with --shard 2/2", *shards)
        (moved / name).unlink()
        refused(f"{name.split('/')[0]} is not there", *shards)
        (moved / name).write_bytes(content)
    assert contents(tmp_path) == expected


def test_the_run_and_the_trace_are_never_taken_for_one_another(request_, tmp_path):
    (tmp_path / "traces").mkdir()
    shards = searched(replace(request_, trace=tmp_path / "traces" / "run.trec"), 2)
    refused("traces/run.trec is the --trace", *shards, output=tmp_path / "traces" / "run.trec")
    (tmp_path / "traces").rename(tmp_path / "elsewhere")
    refused("run.trec.shard-1-of-2 is not there, or is not the --trace", *shards)
    assert not (tmp_path / "run.trec").exists() and not (tmp_path / "traces").exists()


def test_shards_that_do_not_make_a_whole_are_refused(request_, tmp_path):
    one, two, three = searched(request_, 3)
    whole, record = str(search(request_).output), tmp_path / "damaged.json"
    (tmp_path / "damaged").write_text("")
    refused("^shard 1, 3 of 3 is missing", two)
    refused("are both shard 2/3", one, two, two, three)
    refused("differ in the number of shards", one, *searched(request_, 2), two, three)
    refused("nothing does not exist", one, str(tmp_path / "nothing"))
    refused("run.trec.json is not the record of a shard", one, whole)
    for content in ("{", '{"shard": 3}'):
        record.write_text(content)
        refused("damaged.json is not the record of a shard", str(tmp_path / "damaged"))
    with open(two, "a") as file:
        file.write("x Q0 y 1 1.0 t\n")
    refused("was changed after it was written; search again with --shard 2/3", one, two, three)
    record_path(two).unlink()
    refused("has no record run.trec.shard-2-of-3.json beside it", one, two, three)


@pytest.mark.parametrize(
    "changes, difference",
    [
        ({"config": TourConfig("hard", depth=5)}, "settings"),
        ({"hits": 10}, "--hits"),
        ({"trace": None}, "--trace"),
        ({"topics": "other.tsv"}, "the topics"),
        ({"reranker": type("Other", (HashReranker,), {"fingerprint": "other"})()}, "models"),
    ],
)
def test_foreign_shards_are_refused(request_, tmp_path, monkeypatch, changes, difference):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.tsv").write_text((tmp_path / "topics.tsv").read_text().replace("q6", "q9"))
    both = [request_, replace(request_, **changes)]
    shards = [str(search(replace(each, shard=f"{i}/2")).output) for i, each in enumerate(both, start=1)]
    refused(f"are shards of different searches: they differ in {difference}.", *shards)
    assert not (tmp_path / "run.trec").exists()


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "a/b", "1/2\n", "٣/٤", "1/5"])
def test_other_words_are_not_shards_and_there_is_a_batch_for_each(request_, text):
    with pytest.raises(TourError, match="needs at least 5 batches" if text == "1/5" else "^--shard must be i/n"):
        search(replace(request_, shard=text))


@given(topics=st.integers(1, 200), batch_size=st.integers(1, 20), count=st.integers(1, 10))
def test_shards_are_whole_batches_and_together_all_topics(topics, batch_size, count):
    iterator = TopicIterator({number: {"title": "x"} for number in range(topics)})
    batches = -(-topics // batch_size)
    if batches < count:
        with pytest.raises(TourError):
            Shard(1, count).part_of(iterator, batch_size)
        return
    parts = [Shard(number, count).part_of(iterator, batch_size) for number in range(1, count + 1)]
    assert [qid for part in parts for qid, _ in part] == list(range(topics))
    assert all(len(part) % batch_size == 0 for part in parts[:-1])
    sizes = [-(-len(part) // batch_size) for part in parts]
    assert max(sizes) - min(sizes) <= 1
