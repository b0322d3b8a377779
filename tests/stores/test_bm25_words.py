"""The words that BM25 counts: languages, scripts without blanks, marks, and what is refused."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.pipeline import IndexRequest
from tour_pyserini.stores.bm25_index import FOLDER, Bm25Index, write_bm25
from tour_pyserini.stores.bm25_words import LANGUAGES, OTHERS, Words, language_of


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "The cats, sitting on X's mats in 1984!", ["cat", "sit", "mat", "1984"]),
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
    ],
)
def test_words_of_a_language(language, text, words):
    assert Words(language)(text) == words


@pytest.mark.parametrize("language", [*LANGUAGES, *OTHERS])
def test_every_language_has_its_stemmer_and_stop_words(language):
    assert Words(language)("2008 zzqx") == ["2008", Words(language)("zzqx")[0]]


@given(st.text(max_size=30), st.sampled_from(["none", "zh", "th", "hi"]))
def test_composed_and_decomposed_letters_are_the_same_words(text, language):
    words = Words(language)
    assert words(unicodedata.normalize("NFC", text)) == words(unicodedata.normalize("NFD", text))


@given(st.text(max_size=30))
def test_no_word_has_a_blank_and_none_is_empty(text):
    for language in ("en", "none"):
        assert all(word and not word.isspace() for word in Words(language)(text))


def test_the_script_of_a_corpus_decides_where_no_language_is_given(tmp_path):
    assert language_of(["Bridges carry trains.", ""]) == language_of([]) == "en"
    assert language_of(["La ville de Łódź"]) == "en"
    assert language_of(["北京是中国的首都。", "GDP"]) == language_of(["Москва"]) == "none"
    passages = ["北京是中国的首都。", "東京は日本の首都です。", "上海是港口。"]
    write_bm25(passages, tmp_path / FOLDER)
    (tmp_path / "docid").write_text("a\nb\nc\n")
    docids, _ = Bm25Index.open(tmp_path)(["中国的首都", "港口", "Paris"], 3)
    assert docids == [["a", "b"], ["c"], []]


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
