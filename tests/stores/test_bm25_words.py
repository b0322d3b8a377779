"""The words that BM25 counts: languages, scripts without blanks, marks, and what is refused."""

import re
import unicodedata

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.index import IndexRequest
from tour_pyserini.stores.bm25_index import FOLDER, Bm25Index, write_bm25
from tour_pyserini.stores.bm25_words import LANGUAGES, OTHERS, Words


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
        ("ja", "東京タワー 333 m", ["東京", "京タ", "タワ", "ワー", "333"]),
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


@pytest.mark.parametrize("language", [*LANGUAGES, *OTHERS])
def test_every_language_has_its_stemmer_and_stop_words(language):
    assert Words(language)("2008 zzqx") == ["2008", Words(language)("zzqx")[0]]


@given(st.text(max_size=30), st.sampled_from(["en", "tr", "none", "hi"]))
def test_composed_and_decomposed_letters_are_the_same_words(text, language):
    words = Words(language)
    assert words(unicodedata.normalize("NFC", text)) == words(unicodedata.normalize("NFD", text))


@given(st.text(max_size=30))
def test_no_word_has_a_blank_and_none_is_empty(text):
    for language in ("en", "none"):
        assert all(word and not word.isspace() for word in Words(language)(text))


ASSIGNED = st.characters(exclude_categories=["Cn", "Cs"])
WITH_A_RULE = r"[\p{M}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー]"


@given(st.one_of(st.text(ASSIGNED, max_size=20), st.text("aB9_é-' ßжΣ²", max_size=40)))
def test_where_words_are_separated_pieces_are_runs_of_letters_and_digits(text):
    text = unicodedata.normalize("NFKC", text)
    lower = text.lower()
    assume(not regex.search(WITH_A_RULE, lower))
    assert Words("none")(text) == re.findall(r"\b\w\w+\b", lower)


@given(st.text(st.characters(max_codepoint=127), max_size=60), st.sampled_from(["en", "none", "de"]))
def test_text_beside_other_scripts_has_the_same_words(text, language):
    words = Words(language)
    assert words(text + " 北京") == [*words(text), "北京"]


@pytest.mark.parametrize(
    "text",
    [
        *("столицами бегущая города", "πόλεις αθήνας", "हिन्दी किताबें", "مدينة والكتاب المدينة", "ঢাকা শহরের"),
        *("北京", "タワ", "대한", "กร", "ירושלים", "քաղաքներ", "ქალაქები", "நகரங்கள்"),
    ],
)
def test_english_leaves_words_of_other_scripts_as_they_are(text):
    assert Words("en")(text) == text.split()


def test_a_corpus_in_several_scripts_needs_no_language(tmp_path):
    passages = [
        "Bridges carry trains.",
        "北京是中国的首都。",
        "東京は日本の首都です。",
        "上海是港口。",
        "Мосты и поезда",
    ]
    write_bm25(passages, tmp_path / FOLDER)
    (tmp_path / "docid").write_text("a\nb\nc\nd\ne\n")
    docids, _ = Bm25Index.open(tmp_path)(["中国的首都", "港口", "a train on a bridge", "МОСТЫ", "Paris"], 3)
    assert docids == [["b", "c"], ["d"], ["a"], ["e"], []]


def test_the_language_of_an_index_is_used_again(tmp_path):
    write_bm25(["Die Häuser", "Der Hof"], tmp_path / FOLDER, language="de")
    (tmp_path / "docid").write_text("a\nb\n")
    assert Bm25Index.open(tmp_path)(["das Haus"], 3)[0] == [["a"]]


def test_what_is_refused():
    with pytest.raises(TourError, match=r"'klingon' is not known; choose one of ar, .*, zh, or none"):
        Words("klingon")
    with pytest.raises(TourError, match="'xx' is not known"):
        IndexRequest(corpus="c.jsonl", index="i", bm25=True, language="xx")
    with pytest.raises(TourError, match="--language is that of --bm25"):
        IndexRequest(corpus="c.jsonl", index="i", language="de")
    with pytest.raises(TourError, match="--language is not for collections"):
        IndexRequest(corpus="c.jsonl", index="milvus:a.db?collection=c", bm25=True, language="de")
