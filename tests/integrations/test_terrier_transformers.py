"""Transformers of PyTerrier: queries to results, results to query vectors, in pipelines and experiments."""

import numpy as np
import pytest
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError, TourPrf, TourReranker, TourSearcher

pt = pytest.importorskip("pyterrier")
import pandas as pd  # noqa: E402
from ir_measures import RR, R  # noqa: E402
from pyterrier.testing import transformer_test_class  # noqa: E402

from tour_pyserini.integrations.terrier_transformers import Tour, TourRerank, TourVectorPrf  # noqa: E402


@pytest.fixture(scope="module")
def topics(toy):
    return pd.DataFrame({"qid": toy.q_ids, "query": toy.queries})


@pytest.fixture(scope="module")
def words(toy, topics):
    """Another retriever: documents whose number is a multiple of the query's."""
    lines = [
        (qid, query, f"d{i}", 100.0 - i, i // (number + 1))
        for number, (qid, query) in enumerate(zip(topics["qid"], topics["query"], strict=True))
        for i in range(0, 60, number + 1)
    ]
    return pt.Transformer.from_df(pd.DataFrame(lines, columns=["qid", "query", "docno", "score", "rank"]))


def as_lists(results):
    by_query = results.sort_values("rank").groupby("qid")
    return {qid: list(zip(some["docno"], some["score"], strict=True)) for qid, some in by_query}


def test_results_are_those_of_the_searcher(toy, topics, searcher):
    results = Tour(searcher, num_results=20, batch_size=3, text=True)(topics)
    expected = searcher.batch_search(toy.queries, toy.q_ids, k=20)
    assert as_lists(results) == {qid: [(hit.docid, hit.score) for hit in hits] for qid, hits in expected.items()}
    assert list(results.columns) == ["qid", "query", "docno", "score", "rank", "text"]
    assert results["rank"].tolist() == [*range(20)] * 7
    assert results["text"].tolist() == [toy.texts[docno] for docno in results["docno"]]
    assert set(Tour(searcher, filter={"page": {"lt": 3}})(topics)["docno"]) == {"d0", "d1", "d2"}


def test_columns_of_queries_are_kept_and_those_of_documents_are_not(topics, searcher):
    queries = topics.assign(query_1="before", query_0="first", docid=1, title="of a document")
    assert list(Tour(searcher)(queries).columns) == ["qid", "query", "query_1", "query_0", "docno", "score", "rank"]


def test_no_queries_give_no_results_and_wrong_frames_are_named(topics, searcher):
    assert Tour(searcher)(topics.head(0)).empty
    with pytest.raises(pt.validate.InputValidationError, match="query"):
        Tour(searcher)(topics[["qid"]])
    with pytest.raises(pt.validate.InputValidationError, match="score"):
        Tour(searcher)(topics.assign(docno="d1"))


def test_a_retriever_before_it_is_a_signal(toy, topics, words, searcher):
    found = words(topics).groupby("query")

    def signal(queries, k):
        tables = [found.get_group(query).head(k) for query in queries]
        return [table["docno"].tolist() for table in tables], [table["score"].tolist() for table in tables]

    hybrid = TourSearcher.from_vectors(
        toy.vectors, toy.texts, toy.encoder.encode, HashReranker().predict, searcher.config, signals=[signal]
    )
    together = as_lists((words >> Tour(searcher, num_results=15))(topics))
    assert together == as_lists(Tour(hybrid, num_results=15)(topics))
    assert together != as_lists(Tour(searcher, num_results=15)(topics)), "and the searcher itself stays as it was"


def test_queries_with_the_same_text_have_their_own_results_before_it(topics, words, searcher):
    """The words of two queries, the second with the text of the first; each is searched as if it were alone."""
    before = words(topics.head(2)).assign(query=topics["query"][0])
    tour = Tour(searcher, num_results=15)
    alone = [as_lists(tour(before[before["qid"] == qid])) for qid in topics["qid"][:2]]
    assert as_lists(tour(before)) == {**alone[0], **alone[1]}
    assert list(alone[0].values()) != list(alone[1].values())


def test_a_document_that_the_index_lacks_is_named(topics, searcher):
    before = pt.Transformer.from_df(topics.head(1).assign(docno="elsewhere", score=1.0, rank=0))
    with pytest.raises(TourError, match="'elsewhere', which the index does not have"):
        (before >> Tour(searcher))(topics.head(1))


def test_vector_prf_is_pyserinis_rule(toy, topics):
    dense = TourSearcher.from_vectors(toy.vectors, toy.texts, toy.encoder.encode, method="dense")
    config = TourConfig("hard")
    rule = TourVectorPrf(HashReranker(), toy.texts, config, k=5)
    updated = (Tour(dense, num_results=9, vectors=True) >> rule)(topics)
    assert list(updated.columns) == ["qid", "query", "query_vec"]
    pyserini = TourPrf(HashReranker(), toy.texts, config, topics=dict(zip(toy.q_ids, toy.queries, strict=True)))
    vectors, hits = dense.batch_search(toy.queries, toy.q_ids, k=5, return_vector=True)
    expected = pyserini.get_batch_prf_q_emb(toy.q_ids, vectors, hits)
    np.testing.assert_array_equal(np.stack(updated["query_vec"]), expected)
    assert not np.array_equal(expected, vectors)
    from_column = Tour(dense, num_results=9, vectors=True, text=True) >> TourVectorPrf(
        HashReranker(), config=config, k=5
    )
    np.testing.assert_array_equal(np.stack(from_column(topics)["query_vec"]), expected)
    with pytest.raises(pt.validate.InputValidationError, match="doc_vec"):
        rule(Tour(dense)(topics))


def test_the_average_is_that_of_pyterrier_dr(toy, topics, tmp_path):
    pyterrier_dr = pytest.importorskip("pyterrier_dr")
    index = pyterrier_dr.FlexIndex(str(tmp_path / "index"), verbose=False)
    index.index([{"docno": docno, "doc_vec": vector} for docno, vector in zip(toy.docids, toy.vectors, strict=True)])
    queries = topics.assign(query_vec=[toy.encoder.table[query] for query in toy.queries])
    results = (index.retriever(num_results=9) >> index.vec_loader())(queries)
    ours = TourVectorPrf(config=TourConfig("average"), k=5)(results)
    theirs = pyterrier_dr.AveragePrf(k=5)(results)
    assert ours.columns.tolist() == theirs.columns.tolist()
    np.testing.assert_allclose(np.stack(ours["query_vec"]), np.stack(theirs["query_vec"]), atol=1e-6)


def test_results_of_any_retriever_are_ranked_anew(toy, topics, words):
    text = pt.apply.generic(lambda frame: frame.assign(text=frame["docno"].map(toy.texts)))
    tour = TourRerank(HashReranker().predict, TourConfig(budget=20), batch_size=2)
    results = (words >> text >> tour)(topics)
    before = words(topics)
    for qid, query in zip(toy.q_ids, toy.queries, strict=True):
        own = before[before["qid"] == qid]
        texts = [toy.texts[docno] for docno in own["docno"]]
        ranked = TourReranker(HashReranker(), TourConfig(budget=20)).rank(query, texts, scores=own["score"].tolist())
        assert as_lists(results)[qid] == [(own["docno"].iloc[one.position], one.score) for one in ranked]
    assert tour((words >> text)(topics.head(0))).empty
    with pytest.raises(pt.validate.InputValidationError, match="text"):
        tour(before)


def test_with_vectors_the_query_of_results_moves(toy, topics, searcher):
    results = Tour(searcher, num_results=60, text=True, vectors=True)(topics.head(1))
    ranked = TourRerank(HashReranker())(results)
    expected = TourReranker(HashReranker()).rank(
        *("query 0", results["text"].tolist(), np.stack(results["doc_vec"]), results["score"].tolist()),
        query_vector=results["query_vec"][0],
    )
    assert ranked["score"].tolist() == [one.score for one in expected]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """The schematic of a transformer looks its documentation up."""
    monkeypatch.setattr(pt.documentation, "url_for_class", lambda _: None)


for _make in (
    lambda: Tour(TourSearcher.from_vectors(np.eye(2), ["a", "b"], lambda _: [1, 0], method="dense")),
    lambda: TourRerank(len),
    lambda: TourVectorPrf(len),
):
    _case = transformer_test_class(_make)
    globals()[f"Test{type(_make()).__name__}"] = type(f"Test{type(_make()).__name__}", (_case,), {})
del _case


def test_an_experiment_measures_pipelines(toy, topics, words, searcher):
    qrels = pd.DataFrame({"qid": toy.q_ids, "docno": "d7", "label": 1})
    tour = Tour(searcher, num_results=60)
    table = pt.Experiment([tour, words >> tour, words], topics, qrels, [RR, R @ 60], names=["tour", "both", "words"])
    ranks = [1 + [docno for docno, _ in hits].index("d7") for hits in as_lists(tour(topics)).values()]
    assert table["RR"][0] == pytest.approx(np.mean([1 / rank for rank in ranks]))
    assert table["R@60"].tolist()[:2] == [1, 1]
    assert table["R@60"][2] < 1
