"""The BM25 index: words of a language, scores against the formula, order, files, and what it refuses."""

import json
import math
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.stores.index_folder import BM25_FOLDER, has_bm25
from tour_pyserini.stores.signals import Bm25Index, Words, write_bm25

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
        (
            "en",
            "Tokyo Tower (東京タワー) is 333 m²; ２ ﬁles",
            ["tokyo", "tower", "東京", "京タ", "タワ", "ワー", "333", "m2", "file"],
        ),
        ("en", "Zoe\u0308's cafe\u0301s, İzmir, rock´s", ["zoë", "café", "izmir", "rock"]),
        ("de", "Die Häuser und das Haus", ["haus", "haus"]),
        ("ru", "столица и столицы России", ["столиц", "столиц", "росс"]),
        ("fr", "l’homme et les chevaux", ["homm", "cheval"]),
        ("hi", "हिन्दी की किताबें", ["हिन्द", "क", "किताब"]),
        ("zh", "北京是首都。", ["北京", "京是", "是首", "首都"]),
        ("ko", "대한민국", ["대한", "한민", "민국"]),
        ("th", "กรุงเทพ", ["กร", "รุ", "ุง", "งเ", "เท", "ทพ"]),
        ("none", "iPhone手机 を", ["iphone", "手机", "を"]),
        ("bn", "বাংলা ভাষা", ["বাংলা", "ভাষা"]),
        ("zh", "", []),
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


@given(st.text(st.characters(max_codepoint=127), max_size=60), st.sampled_from(["en", "none", "de"]))
def test_text_beside_other_scripts_has_the_same_words(text, language):
    words = Words(language)
    assert words(text + " 北京") == [*words(text), "北京"]


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
    index = Bm25Index(built(tmp_path_factory.mktemp("random") / "index", passages))
    (docids,), (scores,) = index([query], k)
    expected = formula(query, passages)
    best = [i for i in np.argsort(-expected.astype(np.float32), kind="stable") if expected[i] > 0][:k]
    assert scores == pytest.approx(expected[best], rel=1e-5)
    assert sorted(expected[[int(docid[1:]) for docid in docids]]) == pytest.approx(sorted(expected[best]), rel=1e-5)


def test_hits_have_the_words_of_the_query_and_stand_in_order(tmp_path, caplog):
    with caplog.at_level("DEBUG"):
        index = Bm25Index(built(tmp_path / "index", PASSAGES))
        docids, scores = index(["cat", "the on of", "DOGS barking", "zebra", ""], 10)
    assert docids == [["d1", "d0"], [], ["d3", "d1"], [], []]
    assert (np.diff(scores[2]) < 0).all()
    equal = Bm25Index(built(tmp_path / "equal", ["mat", "cat", "mat", "mat", "mat"]))
    assert equal(["mat"], 3)[0] == [["d0", "d2", "d3"]]
    assert caplog.text == "", "bm25s logs for its own developers"


def test_the_language_of_an_index_is_used_again_and_scripts_need_none(tmp_path):
    german = built(tmp_path / "de", ["Die Häuser", "Der Hof"], language="de")
    assert Bm25Index(german)(["das Haus"], 3)[0] == [["d0"]]
    mixed = built(
        tmp_path / "mixed", ["Bridges carry trains.", "北京是中国的首都。", "東京は日本の首都です。", "上海是港口。"]
    )
    docids, _ = Bm25Index(mixed)(["中国的首都", "港口", "a train on a bridge", "Paris"], 3)
    assert docids == [["d1", "d2"], ["d3"], ["d0"], []]


def change_record(folder, **changes):
    record = folder / "tour-bm25.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **changes}))


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda folder: (folder / "tour-bm25.json").unlink(), "--bm25"),
        (lambda folder: change_record(folder, documents=4), "document per line"),
        (lambda folder: change_record(folder, settings={"k1": 2, "language": "en"}), "settings"),
        (lambda folder: change_record(folder, settings=None), "cannot be read"),
        (lambda folder: (folder / "data.csc.index.npy").write_bytes(b""), "checksum"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path, damage, word):
    index, again = built(tmp_path / "index", PASSAGES), built(tmp_path / "again", PASSAGES)
    one, two = ({path.name: path.read_bytes() for path in (made / BM25_FOLDER).iterdir()} for made in (index, again))
    assert has_bm25(index) and one == two
    damage(index / BM25_FOLDER)
    with pytest.raises(TourError, match=word):
        Bm25Index(index)


@pytest.mark.parametrize(
    ("passages", "language", "word"), [(["", "of the"], "en", "words"), (["a b"], "english", "ISO")]
)
def test_what_cannot_be_indexed_is_refused(tmp_path, passages, language, word):
    with pytest.raises(TourError, match=word):
        write_bm25(passages, tmp_path / "bm25", language=language)
