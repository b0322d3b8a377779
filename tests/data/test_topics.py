"""Topics and questions in all their formats."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.topics import Question, judged_only, read_questions, read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.support.java import ensure_java


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
        ("long.tsv", f"{'1' * 18}\ta\n", {int("1" * 18): "a"}),
        ("longer.tsv", f"{'1' * 5000}\ta\n", {"1" * 5000: "a"}),
        ("sic.tsv", "7\t[sic] in quotations\n", {7: "[sic] in quotations"}),
        (
            "dpr.txt",
            'who\t[\'A\', \'B\']\n"""Why"" so"\t"[\'it\'\'s\', ""x""]"\nwho\t[]\n',
            {0: ("who", "A", "B"), 1: ('"Why" so', "its", "x"), 2: ("who",)},
        ),
        ("nq.qa.csv", "who, then\t['A', 'B']\nwhy\t[\"C\"]\n", {0: ("who, then", "A", "B"), 1: ("why", "C")}),
        ("nq.qa.csv.gz", gzip.compress(b"who\t['A']\n", mtime=0), {0: ("who", "A")}),
        ("q.txt", '{"question": "who", "answer": ["A"]}\n', {0: ("who", "A")}),
        (
            "null.jsonl",
            lines(WITHOUT_ID | {"id": None}, WITHOUT_ID | {"_id": None}),
            {0: ("who", "A"), 1: ("who", "A")},
        ),
        ("id.jsonl", lines({"_id": "10", "text": "ten"}, {"_id": 9, "text": "nine"}), {"10": "ten", "9": "nine"}),
        ("one.jsonl", lines({"_id": "b", "text": "y", "answer": "B [sic]"}), {"b": ("y", "B [sic]")}),
        ("text.jsonl", lines(WITH_ID | {"answers": " ['A', \"B\"]"}), {"q7": ("why", "A", "B")}),
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


@pytest.mark.parametrize("id_field", ["_id", "id", "qid", "query_id"])
@pytest.mark.parametrize("text_field", ["text", "query", "question", "title"])
def test_json_lines_keep_their_ids_as_strings(tmp_path, id_field, text_field):
    records = {id_field: "10", text_field: "ten"}, {id_field: 9, text_field: "nine"}
    assert list(read_topics(write(tmp_path / "q.jsonl", lines(*records)))) == [("10", "ten"), ("9", "nine")]


LONG = "1" * 5000
HALF = '{"_id": "\\ud800", "text": "x"}'
GOOD = {"t.tsv": "1\tone\n", "dpr.txt": "who\t['A']\n", "q.jsonl": '{"_id": "1", "text": "one"}\n'}


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("t.tsv", "two", "no tab"),
        ("t.tsv", "1\tagain", "repeats the query id '1'"),
        ("t.tsv", "2\t ", "no text for the query '2'"),
        ("t.tsv", "\ttext", "empty query id"),
        ("t.tsv", "2\ta\tb", "3 columns"),
        ("t.tsv", "who is\tthis", "white space"),
        ("t.tsv", b"2\tcaf\xe9", "not UTF-8"),
        ("dpr.txt", "why\t[__import__('os').abort()]", "list of strings"),
        ("dpr.txt", "why\t['A', 3]", "list of strings"),
        ("dpr.txt", "why\t" + "[" * 100_000, "list of strings"),
        ("dpr.txt", "why\t" + "-" * 100_000 + "1", "list of strings"),
        ("dpr.txt", "why", "a tab and a list"),
        ("dpr.txt", "\"why\t['A']", "a tab and a list"),
        ("dpr.txt", "\t['A']", "no text"),
        ("q.jsonl", "{", "not JSON"),
        ("q.jsonl", f'{{"id": {LONG}, "text": "x"}}', "not JSON"),
        ("q.jsonl", "[1]", "not a JSON object"),
        ("q.jsonl", '{"text": "x"}', "no query id"),
        ("q.jsonl", '{"_id": "2"}', "no query text"),
        ("q.jsonl", HALF, "half a surrogate pair"),
        ("q.jsonl", '{"_id": "2", "text": "x", "answers": [1]}', "list of strings"),
        ("q.jsonl", '{"_id": "2", "text": "x", "answers": "[open(1)]"}', "list of strings"),
    ],
)
def test_the_error_names_a_malformed_line(tmp_path, name, line, reason):
    line = line if isinstance(line, bytes) else line.encode()
    path = write(tmp_path / name, GOOD[name].encode() + b"\n" + line + b"\n")
    with pytest.raises(TourError, match=f", line 3 .*{reason}"):
        read_topics(path)


@pytest.mark.parametrize("line", ["who is x\t['a', 'b'", "who\t['a', 'b'", "who is x\t[a", 'who is x\t"[""a"", ""b"'])
def test_the_error_names_a_broken_list_on_the_first_line(tmp_path, line):
    with pytest.raises(TourError, match=r"line 1 .*list of strings"):
        read_topics(write(tmp_path / "t.tsv", line + "\n"))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('[{"question": "who", "answers": ["A"]},\n {"question" "who"}]', ", line 2, column 14 is not JSON"),
        ('[{"question": "who",\n"answers": ["café"]}]'.encode("latin-1"), ", line 2 is not UTF-8"),
        ("[" * 100_000, "recursion"),
        ("3", "no known format"),
        ("{}", "no known format"),
        ('{"a": 1}', "no known format"),
        ("[]", "no topic"),
        ({"data": []}, "no topic"),
        ([*DPR, 3], ", entry [2] is not a JSON object"),
        ([*DPR, {"answers": ["A"]}], ", entry [2] has no query text"),
        ([*DPR, {"question": " ", "answers": ["A"]}], ", entry [2] has no text"),
        ([*DPR, {"question": "why"}], ", entry [2] has no answers"),
        ([*DPR, {"question": "why", "answers": {"A": 1}}], ", entry [2] does not have a list of strings"),
        ([WITHOUT_ID, WITH_ID], ", entry [1] has a query id"),
        ([WITH_ID, WITHOUT_ID], ", entry [1] has no query id"),
        ([WITH_ID, WITH_ID], ", entry [1] repeats the query id 'q7'"),
        ([WITH_ID | {"id": "\ud800"}], "half a surrogate pair"),
        (f'[{{"id": {LONG}, "question": "b", "answers": []}}]', "Exceeds the limit"),
        ({"data": [3]}, ", data[0] is not a JSON object"),
        ({"data": [{"paragraphs": 3}]}, ", data[0] has no list `paragraphs`"),
        ({"data": [{"paragraphs": [{}]}]}, ", data[0].paragraphs[0] has no list `qas`"),
        (squad(question(), question()), ", data[0].paragraphs[0].qas[1] repeats the query id 'q1'"),
        (squad({"question": "who", "answers": []}), ".qas[0] has no query id"),
        (squad({"id": "q", "question": "who", "answers": ["A"]}), ".qas[0] does not have a list of answers"),
        ({"1": {"answers": ["A"]}}, "query '1' has no query text"),
        ({"1": {"title": "t"}, "2": {"title": None}}, "query '2' has no query text"),
        ({"1": {"title": " ", "answers": ["A"]}}, "query '1' has no text"),
        ({"1": {"question": "b", "answers": [3]}}, "query '1' does not have a list of strings"),
        ({"1": {"title": "b", "answers": 3}}, "query '1' does not have a list of strings"),
        ({"\ud800": {"title": "b", "answers": []}}, "half a surrogate pair"),
    ],
)
def test_the_error_names_the_wrong_entry(tmp_path, value, says):
    path = write(tmp_path / "t.json", value)
    for read in (read_questions, read_topics):
        with pytest.raises(TourError) as caught:
            read(path)
        assert str(path) in str(caught.value) and says in str(caught.value)
        str(caught.value).encode()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.tsv", "", "empty"),
        ("t.tsv", "\n \n", "empty"),
        ("t.tsv.gz", "not gzip", "cannot read"),
        ("t.unheard-of", "1\tone\n", "Pyserini cannot read"),
        ("missing.tsv", None, "No such file"),
        ("no-such-topics", None, "not found"),
    ],
)
def test_the_error_names_an_unreadable_file(tmp_path, monkeypatch, name, content, reason):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises(TourError, match=reason) as caught:
        read_topics(name)
    assert name in str(caught.value)
    with pytest.raises(TourError, match="unknown topics format 'x'"):
        read_topics(name, "x")


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
    kept = judged_only(topics, {"2", "3", "9"})
    assert (list(kept), len(kept), len(topics)) == ([(2, "b"), (3, "c")], 2, 3)
    with pytest.raises(TourError, match=r"qrels\.tsv judges none of the 3 topics"):
        judged_only(topics, {"9"}, source="qrels.tsv")


def test_pyserini_reads_other_formats(tmp_path):
    kilt = write(tmp_path / "kilt.jsonl", '{"id": "k", "input": "where is [START_ENT] it [END_ENT]"}\n')
    assert [text.split() for _, text in read_topics(kilt, "kilt")] == [["where", "is", "it"]]
    assert list(read_topics(write(tmp_path / "t.json", '{"5": {"title": "five"}}'))) == [("5", "five")]


@pytest.fixture
def give_topics(monkeypatch):
    """Let Pyserini return given topics instead of downloading them."""
    ensure_java()
    import pyserini.query_iterator

    return lambda topics: monkeypatch.setattr(pyserini.query_iterator, "get_topics", lambda _: topics)


ODQA = [
    ("dpr.nq.test", 3610, "DprNqTopicReader"),
    ("nq.test", 3610, "DprNqTopicReader"),
    ("dpr.nq.dev", 8757, "DprNqTopicReader"),
    ("dpr.trivia.test", 11313, "DprNqTopicReader"),
    ("dpr.wq.test", 2032, "DprJsonlTopicReader"),
    ("dpr.curated.test", 694, "DprJsonlTopicReader"),
]


@pytest.mark.parametrize(("name", "count", "reader"), ODQA)
def test_open_domain_questions_are_read_as_pyserini_reads_them(shared, give_topics, name, count, reader):
    path = shared / "collections" / "odqa-topics" / f"topics.{name}.txt"
    topics, theirs = read_topics(path), anserini(reader, path)
    assert topics.order == list(range(count))
    assert all(topic["answers"] and all(topic["answers"]) for topic in topics.topics.values())
    assert {qid: topic["title"] for qid, topic in theirs.items()} == dict(topics)
    give_topics(theirs)
    assert read_questions(name.replace(".", "-")) == read_questions(path)


def test_a_quoted_list_of_pyserini_is_unquoted(give_topics):
    give_topics({3: {"title": "why", "answers": '"[""it\'s"", ""x""]"'}, 4: {"title": "who", "answers": "['A']"}})
    topics = read_topics("nq-test").topics
    assert [topics[qid]["answers"] for qid in (3, 4)] == [["it's", "x"], ["A"]]


@pytest.mark.parametrize("answers", ["__import__('os').abort()", "[open('x')]", "A", "['A', 3]", ""])
def test_answers_that_are_not_a_list_are_refused_and_not_evaluated(give_topics, answers):
    give_topics({3: {"title": "why", "answers": answers}})
    with pytest.raises(TourError, match=r"nq-test, query 3 .*list of strings"):
        read_topics("nq-test")


def test_queries_of_real_collections_are_read(shared):
    collections = shared / "collections"
    topics = read_topics(collections / "scifact" / "queries.jsonl")
    judged = {qrel.query_id for qrel in read_qrels(collections / "scifact" / "qrels" / "test.tsv")}
    assert (len(topics), len(judged_only(topics, judged))) == (1109, 300)
    squad_slice = read_topics(collections / "squad-slice" / "questions_answers.jsonl")
    assert squad_slice.topics["sqq0"]["answers"] == ["Corpus Juris Canonici"]
    xquad = read_questions(collections / "xquad" / "xquad.en.json")
    assert len({found.qid for found in xquad}) == len(xquad) == 1190
    assert xquad[0].text == "How many points did the Panthers defense surrender?" and xquad[0].answers == ["308"]
