import pytest

from tour_pyserini.data.topics import read_questions, read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.support.java import ensure_java


@pytest.fixture
def give_topics(monkeypatch):
    """Let Pyserini return given topics, or those of a file read by its own reader, instead of downloading them."""
    ensure_java()
    import pyserini.query_iterator
    from pyserini.search import get_topics_with_reader

    def give(reader, path):
        topics = reader if path is None else get_topics_with_reader(f"io.anserini.search.topicreader.{reader}", path)
        monkeypatch.setattr(pyserini.query_iterator, "get_topics", lambda _: topics)

    return give


@pytest.mark.parametrize(
    ("name", "file", "count", "reader"),
    [
        ("nq-test", "topics.nq.test.txt", 3610, "DprNqTopicReader"),
        ("dpr-nq-test", "topics.dpr.nq.test.txt", 3610, "DprNqTopicReader"),
        ("dpr-nq-dev", "topics.dpr.nq.dev.txt", 8757, "DprNqTopicReader"),
        ("dpr-trivia-test", "topics.dpr.trivia.test.txt", 11313, "DprNqTopicReader"),
        ("dpr-wq-test", "topics.dpr.wq.test.txt", 2032, "DprJsonlTopicReader"),
        ("dpr-curated-test", "topics.dpr.curated.test.txt", 694, "DprJsonlTopicReader"),
    ],
)
def test_topics_by_name_have_the_answers_of_their_files(shared, give_topics, name, file, count, reader):
    path = shared / "collections" / "odqa-topics" / file
    give_topics(reader, str(path))
    questions = read_questions(name)
    assert len(questions) == count
    assert questions == read_questions(path)


def test_a_quoted_list_is_unquoted(give_topics):
    give_topics({3: {"title": "why", "answers": '"[""it\'s"", ""x""]"'}, 4: {"title": "who", "answers": "['A']"}}, None)
    topics = read_topics("nq-test").topics
    assert [topics[qid]["answers"] for qid in (3, 4)] == [["it's", "x"], ["A"]]


@pytest.mark.parametrize("answers", ["__import__('os').abort()", "[open('x')]", "A", "['A', 3]", ""])
def test_answers_that_are_not_a_list_are_refused_and_not_evaluated(give_topics, answers):
    give_topics({3: {"title": "why", "answers": answers}}, None)
    with pytest.raises(TourError, match="nq-test, query 3 does not have a list of strings as its answers"):
        read_topics("nq-test")
