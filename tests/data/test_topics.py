"""Topics and questions in all their formats."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.data.topics import Question, read_questions, read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.support.pyserini import ensure_java


def write(path, content):
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def anserini(reader, path):
    """Read a file with one of Pyserini's own (Java) readers."""
    ensure_java()
    from pyserini.search import get_topics_with_reader

    return get_topics_with_reader(f"io.anserini.search.topicreader.{reader}", str(path))


@settings(max_examples=30, deadline=None)
@given(
    topics=st.dictionaries(
        st.integers(0, 10**9), st.from_regex(r"[a-zA-Zé'\"]+( [a-z?]+)*", fullmatch=True), min_size=1, max_size=8
    )
)
def test_random_tsv_files_are_read_as_pyserini_reads_them(tmp_path_factory, topics):
    content = "".join(f"{qid}\t{text}\n" for qid, text in topics.items())
    path = write(tmp_path_factory.mktemp("t") / "topics.tsv", content)
    assert read_topics(path).topics == anserini("TsvIntTopicReader", path)


def question(qid="q1", text="who", answers=("A",)):
    return {"id": qid, "question": text, "answers": [{"text": answer, "answer_start": 0} for answer in answers]}


def squad(*questions):
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": list(questions)}]}]}


DPR = [
    {"dataset": "nq", "question": "who", "answers": ["A", "B"], "positive_ctxs": [{"title": "t", "text": "x"}]},
    {"question": "who", "answers": [], "id": None},
]
WITHOUT_ID, WITH_ID = {"question": "who", "answers": ["A"]}, {"id": "q7", "question": "why", "answers": ["B"]}
RESULTS = {
    "10": {"question": "who", "answers": ["A"], "contexts": [{"docid": "d", "score": "1", "text": "x"}]},
    "9": {"question": "why", "answers": "['B']", "contexts": []},
}


@pytest.mark.parametrize(
    ("name", "content", "topics"),
    [
        ("bond.tsv", "007\tbond\n10\tten\n", {"007": "bond", "10": "ten"}),
        ("gz.tsv.gz", gzip.compress("\ufeff1\tone\n".encode(), mtime=0), {1: "one"}),
        ("third.tsv", "2\ta\tb\n", {2: "a"}),
        ("long.qa.csv", f"who\t['{'A' * 200_000}']\n", {0: ("who", "A" * 200_000)}),
        ("sic.tsv", "7\t[sic] in quotations\n", {7: "[sic] in quotations"}),
        (
            "dpr.txt",
            'who\t[\'A\', \'B\']\n"""Why"" so"\t"[\'it\'\'s\', ""x""]"\nwho\t[]\n',
            {0: ("who", "A", "B"), 1: ('"Why" so', "its", "x"), 2: ("who",)},
        ),
        ("nq.qa.csv", "who, then\t['A', 'B']\nwhy\t[\"C\"]\n", {0: ("who, then", "A", "B"), 1: ("why", "C")}),
        ("q.txt", '{"question": "who", "answer": ["A"]}\n', {0: ("who", "A")}),
        ("id.jsonl", lines({"_id": "10", "text": "ten"}, {"_id": 9, "text": "nine"}), {"10": "ten", "9": "nine"}),
        ("query.jsonl", lines({"id": "10", "query": "ten"}, {"id": 9, "query": "nine"}), {"10": "ten", "9": "nine"}),
        ("title.jsonl", lines({"query_id": 9, "title": "nine"}), {"9": "nine"}),
        ("qid.jsonl", lines({"qid": 9, "question": "nine"}), {"9": "nine"}),
        ("one.jsonl", lines({"_id": "b", "text": "y", "answer": "B [sic]"}), {"b": ("y", "B [sic]")}),
        ("both.jsonl", lines(WITH_ID | {"text": "a passage", "title": "a page"}), {"q7": ("why", "B")}),
        ("dpr.json", DPR, {0: ("who", "A", "B"), 1: ("who",)}),
        ("dpr.json.gz", gzip.compress(json.dumps(DPR).encode(), mtime=0), {0: ("who", "A", "B"), 1: ("who",)}),
        ("fid.json", [{"id": 7, "question": "who", "answers": ["A"]}], {"7": ("who", "A")}),
        (
            "squad.json",
            squad(question(answers="BAB"), question("7", answers=())),
            {"q1": ("who", "B", "A"), "7": ("who",)},
        ),
        ("run.json", RESULTS, {"10": ("who", "A"), "9": ("why", "B")}),
    ],
)
def test_every_format_is_read(tmp_path, name, content, topics):
    path = write(tmp_path / name, content)
    found = read_topics(path).topics
    expected = {qid: {"title": one} if isinstance(one, str) else {"title": one[0], "answers": list(one[1:])}
                for qid, one in topics.items()}  # fmt: skip
    assert found == expected
    if all("answers" in topic for topic in expected.values()):
        questions = [Question(str(qid), topic["title"], topic["answers"]) for qid, topic in expected.items()]
        assert read_questions(path) == questions
    else:
        with pytest.raises(TourError, match="no answers"):
            read_questions(path)


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("t.tsv", "1\tone\n\ntwo\n", "line 3 .*no tab"),
        ("t.tsv", "1\tone\n1\tagain\n", "repeats the query id '1'"),
        ("t.tsv", "who is\tthis\n", "'who is'"),
        ("t.tsv", "", "empty"),
        ("test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", "--qrels"),
        ("dpr.txt", "who\t['A']\nwhy\t[__import__('os').abort()]\n", "line 2 .*list of strings"),
        ("dpr.txt", "who\t['A']\nwhy\n", "a tab and a list"),
        ("q.jsonl", "{\n", "line 1 is not JSON"),
        ("q.jsonl", '{"text": "x"}\n', "no query id"),
        ("q.jsonl", '{"_id": "2"}\n', "no query text"),
        ("t.json", "[]", "no topic"),
        ("t.json", [*DPR, {"answers": ["A"]}], r"entry \[2\] has no query text"),
        ("t.json", [WITHOUT_ID, WITH_ID], r"entry \[1\] has a query id"),
        ("t.json", squad(question(), question()), r"data\[0\]\.paragraphs\[0\]\.qas\[1\] repeats"),
        ("t.json", {"1": {"title": " ", "answers": ["A"]}}, "query '1' has no text"),
        ("t.unheard-of", "1\tone\n", "Pyserini cannot read"),
        ("no-such-topics", None, "not found"),
    ],
)
def test_refusals(tmp_path, monkeypatch, name, content, word):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(TourError, match=word):
        read_topics(name)


@pytest.mark.parametrize("name", ["q.jsonl", "t.tsv"])
def test_a_topic_without_text_is_refused_only_if_it_is_used(tmp_path, name):
    records = lines({"_id": "a", "text": "why"}, {"_id": "0", "text": ""})
    path = write(tmp_path / name, records if name == "q.jsonl" else "a\twhy\n0\t \n")
    assert dict(read_topics(path, only={"a"}))["a"] == "why"
    for wanted in (None, {"0"}):
        with pytest.raises(TourError, match="line 2 has no text"):
            read_topics(path, only=wanted)


def test_questions_keep_the_order_of_their_file_and_topics_are_sorted(tmp_path):
    path = write(tmp_path / "q.jsonl", lines(WITH_ID | {"id": "b"}, WITH_ID | {"id": "a"}))
    assert [found.qid for found in read_questions(path)] == ["b", "a"]
    assert [qid for qid, _ in read_topics(path)] == ["a", "b"]


def test_judged_only_keeps_the_topics_of_a_split(tmp_path):
    topics = read_topics(write(tmp_path / "t.tsv", "1\ta\n3\tc\n2\tb\n"))
    kept = topics.judged({"2", "3", "9"})
    assert (list(kept), len(kept), len(topics)) == ([(2, "b"), (3, "c")], 2, 3)
    with pytest.raises(TourError, match=r"qrels\.tsv judges none of the 3"):
        topics.judged({"9"}, "qrels.tsv")


def test_pyserini_reads_other_formats(tmp_path):
    kilt = write(tmp_path / "kilt.jsonl", '{"id": "k", "input": "where is [START_ENT] it [END_ENT]"}\n')
    assert [text.split() for _, text in read_topics(kilt, "kilt")] == [["where", "is", "it"]]
    assert list(read_topics(write(tmp_path / "t.json", '{"5": {"title": "five"}}'))) == [("5", "five")]


@pytest.mark.parametrize(
    ("name", "count", "reader"),
    [("dpr.nq.test", 3610, "DprNqTopicReader"), ("dpr.curated.test", 694, "DprJsonlTopicReader")],
)
def test_open_domain_questions_are_read_as_pyserini_reads_them(shared, monkeypatch, name, count, reader):
    path = shared / "collections" / "odqa-topics" / f"topics.{name}.txt"
    topics, theirs = read_topics(path), anserini(reader, path)
    assert topics.order == list(range(count))
    assert all(topic["answers"] and all(topic["answers"]) for topic in topics.topics.values())
    assert {qid: topic["title"] for qid, topic in theirs.items()} == dict(topics)
    monkeypatch.setattr("pyserini.query_iterator.get_topics", lambda _: theirs)  # instead of downloading them
    assert read_questions(name.replace(".", "-")) == read_questions(path)


def test_a_quoted_list_of_pyserini_is_unquoted(monkeypatch):
    ensure_java()
    given = {3: {"title": "why", "answers": '"[""it\'s"", ""x""]"'}, 4: {"title": "who", "answers": "['A']"}}
    monkeypatch.setattr("pyserini.query_iterator.get_topics", lambda _: given)
    assert [topic["answers"] for topic in read_topics("nq-test").topics.values()] == [["it's", "x"], ["A"]]
