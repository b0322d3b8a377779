import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.data import input_files as lines
from tour_pyserini.data.qrels import read_qrels
from tour_pyserini.data.topics import judged_only, read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.support.java import ensure_java


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def anserini(reader, path):
    """Read a file with one of Pyserini's own (Java) readers."""
    ensure_java()
    from pyserini.search import get_topics_with_reader

    return get_topics_with_reader(f"io.anserini.search.topicreader.{reader}", str(path))


def test_tsv_is_read_as_pyserini_reads_it(tmp_path):
    path = write(tmp_path / "topics.tsv", '10\tten "quoted"\n9\t nine \n2\tdeux été\r\n')
    ensure_java()
    from pyserini.query_iterator import DefaultQueryIterator

    ours, theirs = read_topics(path), DefaultQueryIterator.from_topics(str(path))
    assert list(ours) == list(theirs) == [(2, "deux été"), (9, "nine"), (10, 'ten "quoted"')]


@given(
    topics=st.dictionaries(
        st.integers(0, 10**9), st.from_regex(r"[a-zA-Zé'\"]+( [a-z?]+)*", fullmatch=True), min_size=1, max_size=8
    )
)
def test_random_tsv_files_are_read_as_pyserini_reads_them(tmp_path_factory, topics):
    lines = "".join(f"{qid}\t{text}\n" for qid, text in topics.items())
    path = write(tmp_path_factory.mktemp("t") / "topics.tsv", lines)
    assert read_topics(path).topics == anserini("TsvIntTopicReader", path)


def test_ids_stay_strings_if_one_is_not_a_canonical_integer(tmp_path):
    assert list(read_topics(write(tmp_path / "a.tsv", "007\tbond\n10\tten\n"))) == [("007", "bond"), ("10", "ten")]


def test_gzip_and_byte_order_mark_are_read(tmp_path):
    path = write(tmp_path / "topics.tsv.gz", gzip.compress("\ufeff1\tone\n".encode()))
    assert list(read_topics(path)) == [(1, "one")]


def test_dpr_questions_are_numbered_and_keep_their_answers(tmp_path):
    content = 'who\t[\'A\', \'B\']\n"""Why"" so"\t"[\'it\'\'s\', ""x""]"\nwho\t[]\n'
    topics = read_topics(write(tmp_path / "dpr.txt", content))
    assert list(topics) == [(0, "who"), (1, '"Why" so'), (2, "who")]
    assert [topics.topics[i]["answers"] for i in range(3)] == [["A", "B"], ["its", "x"], []]


def test_json_questions_without_ids_are_numbered(tmp_path):
    content = '{"question": "who", "answer": ["A"]}\n{"question": "why", "answer": ["B", "C"]}\n'
    topics = read_topics(write(tmp_path / "q.txt", content))
    assert list(topics) == [(0, "who"), (1, "why")]
    assert topics.topics[1]["answers"] == ["B", "C"]


@pytest.mark.parametrize("id_field", ["_id", "id", "qid", "query_id"])
@pytest.mark.parametrize("text_field", ["text", "query", "question", "title"])
def test_json_lines_keep_their_ids_as_strings(tmp_path, id_field, text_field):
    content = f'{{"{id_field}": "10", "{text_field}": "ten"}}\n{{"{id_field}": 9, "{text_field}": "nine"}}\n'
    topics = read_topics(write(tmp_path / "queries.jsonl", content))
    assert list(topics) == [("10", "ten"), ("9", "nine")]
    assert "answers" not in topics.topics["9"]


def test_json_answers_are_kept(tmp_path):
    content = '{"_id": "a", "text": "x", "answers": ["A"]}\n{"_id": "b", "text": "y", "answer": "B"}\n'
    topics = read_topics(write(tmp_path / "queries.jsonl", content)).topics
    assert (topics["a"]["answers"], topics["b"]["answers"]) == (["A"], ["B"])


GOOD = {"t.tsv": "1\tone\n", "dpr.txt": "who\t['A']\n", "q.jsonl": '{"_id": "1", "text": "one"}\n'}


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("t.tsv", "two", "has no tab"),
        ("t.tsv", "1\tagain", "repeats the query id '1'"),
        ("t.tsv", "2\t ", "has no text for the query '2'"),
        ("t.tsv", "\ttext", "has an empty query id"),
        ("t.tsv", "2\ta\tb", "has 3 columns"),
        ("t.tsv", "who is\tthis", "white space in the query id"),
        ("t.tsv", b"2\tcaf\xe9", "is not UTF-8"),
        ("dpr.txt", "why\t__import__('os').abort()", "does not have a list of strings"),
        ("dpr.txt", "why\t[__import__('os').abort()]", "does not have a list of strings"),
        ("dpr.txt", "why\t['A', 3]", "does not have a list of strings"),
        ("dpr.txt", "why\t" + "[" * 100_000, "does not have a list of strings"),
        ("dpr.txt", "why\t" + "-" * 100_000 + "1", "does not have a list of strings"),
        ("dpr.txt", "why", "is not a question, a tab and a list"),
        ("dpr.txt", "\t['A']", "has no text"),
        ("q.jsonl", "{", "is not JSON"),
        ("q.jsonl", "[1]", "is not a JSON object"),
        ("q.jsonl", '{"text": "x"}', "has no query id"),
        ("q.jsonl", '{"_id": "2"}', "has no query text"),
        ("q.jsonl", '{"_id": "2", "text": ""}', "has no text"),
        ("q.jsonl", '{"_id": "1", "text": "again"}', "repeats the query id '1'"),
        ("q.jsonl", '{"_id": "2", "text": "x", "answers": [1]}', "does not have a list of strings"),
    ],
)
def test_the_error_names_a_malformed_line(tmp_path, name, line, reason):
    line = line if isinstance(line, bytes) else line.encode()
    path = write(tmp_path / name, GOOD[name].encode() + b"\n" + line + b"\n")
    with pytest.raises(TourError) as caught:
        read_topics(path)
    assert str(caught.value).startswith(f"{path}, line 3 ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.tsv", "", "is empty"),
        ("t.tsv", "\n \n", "is empty"),
        ("t.tsv.gz", "not gzip", "cannot read"),
        ("t.tsv.gz", gzip.compress(b"1\tone\n", mtime=0)[:-4], "cannot read"),
        ("t.unheard-of", "1\tone\n", "Pyserini cannot read"),
    ],
)
def test_the_error_names_an_unreadable_file(tmp_path, name, content, reason):
    with pytest.raises(TourError, match=reason) as caught:
        read_topics(write(tmp_path / name, content))
    assert name in str(caught.value)


def test_a_missing_file_an_unknown_name_and_an_unknown_format_are_refused():
    with pytest.raises(TourError, match=r"missing\.tsv: No such file"):
        read_topics("missing.tsv")
    with pytest.raises(TourError, match="no-such-topics"):
        read_topics("no-such-topics")
    with pytest.raises(TourError, match="unknown topics format 'x'; choose one of default, kilt"):
        read_topics("missing.tsv", "x")


def test_pyserini_reads_other_formats(tmp_path):
    kilt = write(tmp_path / "kilt.jsonl", '{"id": "k", "input": "where is [START_ENT] it [END_ENT]"}\n')
    assert [text.split() for _, text in read_topics(kilt, "kilt")] == [["where", "is", "it"]]
    assert list(read_topics(write(tmp_path / "t.json", '{"5": {"title": "five"}}'))) == [("5", "five")]


@pytest.mark.parametrize("name", ["t.tsv", "t.jsonl"])
def test_judged_only_keeps_the_topics_of_a_split(tmp_path, name):
    if name == "t.tsv":
        topics = read_topics(write(tmp_path / name, "1\ta\n3\tc\n2\tb\n"))
    else:
        lines = [f'{{"_id": "{qid}", "text": "{text}"}}\n' for qid, text in ((1, "a"), (3, "c"), (2, "b"))]
        topics = read_topics(write(tmp_path / name, "".join(lines)))
    kept = judged_only(topics, {"2", "3", "9"})
    assert [(str(qid), text) for qid, text in kept] == [("2", "b"), ("3", "c")]
    assert (len(kept), len(topics)) == (2, 3)


def test_judgements_of_other_topics_are_refused(tmp_path):
    topics = read_topics(write(tmp_path / "t.tsv", "1\ta\n"))
    with pytest.raises(TourError, match=r"qrels\.tsv judges none of the 1 topics"):
        judged_only(topics, {"9"}, source="qrels.tsv")


@pytest.mark.parametrize(
    ("name", "count", "reader"),
    [
        ("topics.dpr.nq.test.txt", 3610, "DprNqTopicReader"),
        ("topics.nq.test.txt", 3610, "DprNqTopicReader"),
        ("topics.dpr.nq.dev.txt", 8757, "DprNqTopicReader"),
        ("topics.nq.dev.txt", 8757, "DprNqTopicReader"),
        ("topics.dpr.trivia.test.txt", 11313, "DprNqTopicReader"),
        ("topics.dpr.wq.test.txt", 2032, "DprJsonlTopicReader"),
        ("topics.dpr.curated.test.txt", 694, "DprJsonlTopicReader"),
    ],
)
def test_open_domain_questions_are_read_as_pyserini_reads_them(shared, name, count, reader):
    path = shared / "collections" / "odqa-topics" / name
    topics = read_topics(path)
    assert len(topics) == count
    assert topics.order == list(range(count))
    assert all(topic["answers"] and all(topic["answers"]) for topic in topics.topics.values())
    theirs = anserini(reader, path)
    assert {qid: topic["title"] for qid, topic in theirs.items()} == dict(topics)


def test_queries_of_real_collections_are_read(shared):
    scifact = shared / "collections" / "scifact"
    topics = read_topics(scifact / "queries.jsonl")
    assert len(topics) == 1109
    assert len(judged_only(topics, {qrel.query_id for qrel in read_qrels(scifact / "qrels" / "test.tsv")})) == 300
    squad = read_topics(shared / "collections" / "squad-slice" / "questions_answers.jsonl")
    assert squad.topics["sqq0"]["answers"] == ["Corpus Juris Canonici"]


def test_json_that_is_nested_deeply_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    text = json.dumps({"_id": "1", "text": "[" * 1000, "more": [[]] * 1000})
    (tmp_path / "q.jsonl").write_text(text)
    assert [qid for qid, _ in read_topics(tmp_path / "q.jsonl")] == ["1"]
    monkeypatch.setattr(lines.json, "loads", None)  # it would end the process where Java runs, with Python 3.13
    (tmp_path / "q.jsonl").write_text("[" * 501 + "]" * 501)
    with pytest.raises(TourError, match="line 1 is not JSON"):
        read_topics(tmp_path / "q.jsonl")
