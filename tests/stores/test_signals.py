"""Signals: what may be one and what it may return; the BM25 index: words, scores against the formula, order, files."""

import math
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from toy_collection import build_lucene

from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.stores import signals
from tour_pyserini.stores.index_folder import BM25_FOLDER, BM25_RECORD, Docids, has_bm25
from tour_pyserini.stores.signals import Words, check_documents, check_signal, found_by, open_signal, write_bm25

POSITIONS = {"a": 0, "b": 1, "c": 2}


def test_what_signals_find_is_put_in_order():
    hits = found_by(lambda queries, k: ([["b", "c", "a"], []], [[1, 3, 2], []]), ["x", "y"], 4, POSITIONS)
    assert hits.ids.tolist() == [[2, 0, 1, -1], [-1] * 4]
    assert hits.scores[0].tolist() == [3, 2, 1, -np.inf]
    one = signals.QuerySignal(lambda query, k: (["c", "a"][:k], [2.0, 1.0][:k]))
    assert found_by(one, ["x"], 2, Docids.of(["a", "b", "c"]).positions).ids.tolist() == [[2, 0]]
    hit = SimpleNamespace(docid="b", score=2.5)
    lucene = open_signal(SimpleNamespace(search=lambda query, k: [hit] * (query == "x") * k))
    assert lucene(["x", "y"], 1) == ([["b"], []], [[2.5], []])


@pytest.mark.parametrize(
    ("work", "word"),
    [
        (([["a"], ["b", "c"]], [[1], [1]]), "2 docids, 1 scores"),
        (([["a"], ["b", "c", "a"]], [[1], [1, 1, 1]]), "3 docids"),
        (([["a"], ["q"]], [[1], [1]]), "'q'"),
        (([["a"], ["b", "b"]], [[1], [1, 1]]), "none twice"),
        (([["a"], ["b"]], [[1], [float("nan")]]), "finite"),
        (lambda folder: open_signal(str(folder)), "neither a BM25 index nor a Lucene index"),
        (lambda folder: check_signal(str(folder / "nowhere")), "no such folder"),
        (lambda folder: check_signal("no-such-index-at-all"), "no prebuilt index"),
        (lambda folder: write_bm25(["a b"], folder / "bm25", language="english"), "ISO"),
    ],
)
def test_refusals(tmp_path, work, word):
    with pytest.raises(TourError, match=word):
        work(tmp_path) if callable(work) else found_by(lambda queries, k: work, ["x", "y"], 2, POSITIONS)


NAMES = st.lists(st.sampled_from(["a", "b", "é", "d", "ee"]), max_size=6)


@given(NAMES, NAMES, st.booleans())
def test_a_signal_of_other_documents_is_refused(names, others, packed):
    signal = SimpleNamespace(docids=Docids.of(others) if packed else others)
    positions = Docids.of(names).positions if packed else {name: i for i, name in enumerate(names)}
    if set(names) == set(others):
        check_documents(signal, positions)
        check_documents(len, positions)
        return
    extra, missing = set(others) - set(names), set(names) - set(others)
    with pytest.raises(TourError, match="has the document" if extra else "lacks") as refusal:
        check_documents(signal, positions)
    assert any(repr(name) in str(refusal.value) for name in extra or missing)


@pytest.mark.slow
def test_a_lucene_index_finds_documents(tmp_path):
    texts = {"a": "a fox", "b": "two foxes and a hound"}
    folder = build_lucene(tmp_path, texts, "--storeRaw")
    assert dict(open_texts(folder)) == texts
    hits = found_by(open_signal(folder), ["fox", "hounds", "zebra"], 3, POSITIONS)
    assert hits.ids.tolist() == [[0, 1, -1], [1, -1, -1], [-1, -1, -1]]
    assert hits.scores[0, 0] > hits.scores[0, 1] > 0


PASSAGES = ["The cat sat on the mat", "Cats and dogs", "", "A dog barks; dogs bark", "mat of straw"]


def built(folder, passages, language="en"):
    folder.mkdir(parents=True, exist_ok=True)
    write_bm25(passages, folder / BM25_FOLDER, language=language)
    (folder / "docid").write_text("".join(f"d{i}\n" for i in range(len(passages))))
    return folder


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "The cats, sitting on X's mats in 1984!", ["cat", "sit", "mat", "1984"]),
        ("en", "Tokyo (東京タワー): 333 m²; ２ ﬁles", ["tokyo", "東京", "京タ", "タワ", "ワー", "333", "m2", "file"]),
        ("en", "Zoe\u0308's cafe\u0301s, İzmir, rock´s", ["zoë", "café", "izmir", "rock"]),
        ("de", "Die Häuser und das Haus", ["haus", "haus"]),
        ("ru", "столица и столицы России", ["столиц", "столиц", "росс"]),
        ("hi", "हिन्दी की किताबें", ["हिन्द", "क", "किताब"]),
        ("th", "กรุงเทพ", ["กร", "รุ", "ุง", "งเ", "เท", "ทพ"]),
        ("none", "iPhone手机 を", ["iphone", "手机", "を"]),
        ("tr", "İstanbul istanbul ISPARTA ısparta I\u0307zmir", ["istanbul", "istanbul", "ıspar", "ıspar", "izmir"]),
    ],
)
def test_words_of_a_language(language, text, words):
    assert Words(language)(text) == words


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=30), st.sampled_from(["en", "tr", "none", "hi"]))
def test_composed_and_decomposed_letters_are_the_same_words_and_none_is_empty(text, language):
    words = Words(language)
    assert words(unicodedata.normalize("NFC", text)) == words(unicodedata.normalize("NFD", text))
    assert all(word and not word.isspace() for word in words(text))


@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_plain_english_has_the_words_of_bm25s(text):
    import bm25s
    import Stemmer

    theirs = bm25s.tokenize([text], stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
    words = {number: word for word, number in theirs.vocab.items()}
    assert Words("en")(text) == [words[number] for number in theirs.ids[0] if words[number]]


def formula(query, passages, *, k1=0.9, b=0.4):
    """Lucene's BM25 of each passage; words are separated by blanks."""
    texts = [passage.split() for passage in passages]
    average = sum(map(len, texts)) / len(texts)
    scores = []
    for text in texts:
        score = 0.0
        for word in query.split():
            frequency, holders = text.count(word), sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
            score += idf * frequency / (frequency + k1 * (1 - b + b * len(text) / average)) if frequency else 0.0
        scores.append(score)
    return np.array(scores)


WORDS = st.lists(st.sampled_from(["xu", "yo", "zap", "wim", "vor"]), max_size=8).map(" ".join)


@given(passages=st.lists(WORDS, min_size=1, max_size=8), query=WORDS, k=st.integers(1, 9))
@settings(deadline=None, max_examples=40)
def test_scores_are_those_of_the_formula(tmp_path_factory, passages, query, k):
    assume(any(passages))
    index = open_signal(built(tmp_path_factory.mktemp("random") / "index", passages))
    (docids,), (scores,) = index([query], k)
    expected = formula(query, passages)
    best = [i for i in np.argsort(-expected.astype(np.float32), kind="stable") if expected[i] > 0][:k]
    assert scores == pytest.approx(expected[best], rel=1e-5)
    assert sorted(expected[[int(docid[1:]) for docid in docids]]) == pytest.approx(sorted(expected[best]), rel=1e-5)


def test_hits_have_the_words_of_the_query_and_stand_in_order(tmp_path, caplog):
    with caplog.at_level("DEBUG"):
        index = open_signal(built(tmp_path / "index", PASSAGES))
        docids, scores = index(["cat", "the on of", "DOGS barking", "zebra", ""], 10)
    assert docids == [["d1", "d0"], [], ["d3", "d1"], [], []]
    assert (np.diff(scores[2]) < 0).all()
    equal = open_signal(built(tmp_path / "equal", ["mat", "cat", "mat", "mat", "mat"]))
    assert equal(["mat"], 3)[0] == [["d0", "d2", "d3"]]
    assert caplog.text == "", "bm25s logs for its own developers"
    german = built(tmp_path / "de", ["Die Häuser", "Der Hof"], language="de")  # which is used again
    assert open_signal(german)(["das Haus"], 3)[0] == [["d0"]]
    assert signals.signal_files(str(german)) == str(german / "bm25")
    mixed = built(tmp_path / "mixed", ["Bridges carry trains.", "北京是中国的首都。", "上海是港口。"])
    assert open_signal(mixed)(["中国的首都", "a train on a bridge", "Paris"], 3)[0] == [["d1"], ["d0"], []]


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda folder: (folder / BM25_RECORD).unlink(), "--bm25"),
        (lambda folder: (folder / "data.csc.index.npy").write_bytes(b""), "checksum"),
        (lambda folder: (folder.parent / "docid").write_text("d0\n"), "another index"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path, damage, word):
    index, again = built(tmp_path / "index", PASSAGES), built(tmp_path / "again", PASSAGES)
    one, two = ({path.name: path.read_bytes() for path in (made / BM25_FOLDER).iterdir()} for made in (index, again))
    assert has_bm25(index) and one == two
    damage(index / BM25_FOLDER)
    with pytest.raises(TourError, match=word):
        open_signal(index)
