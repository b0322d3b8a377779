"""Beside pyterrier_dr: its columns of vectors, its own PRF as an oracle, and GAR and LADR in one experiment."""

import numpy as np
import pytest
from toy_collection import HashReranker

from tour_pyserini import TourConfig

pt = pytest.importorskip("pyterrier")
pyterrier_dr = pytest.importorskip("pyterrier_dr")
import pandas as pd  # noqa: E402
from ir_measures import RR, R  # noqa: E402
from pyterrier_adaptive import GAR  # noqa: E402

from tour_pyserini.integrations.terrier_transformers import Tour, TourVectorPrf  # noqa: E402


@pytest.fixture(scope="module")
def index(toy, tmp_path_factory):
    index = pyterrier_dr.FlexIndex(str(tmp_path_factory.mktemp("flex") / "index"), verbose=False)
    index.index([{"docno": docno, "doc_vec": vector} for docno, vector in zip(toy.docids, toy.vectors, strict=True)])
    return index


@pytest.fixture(scope="module")
def topics(toy):
    vectors = [toy.encoder.table[query] for query in toy.queries]
    return pd.DataFrame({"qid": toy.q_ids, "query": toy.queries, "query_vec": vectors})


def test_the_average_is_that_of_pyterrier_dr(index, topics):
    results = (index.retriever(num_results=9) >> index.vec_loader())(topics)
    ours = TourVectorPrf(config=TourConfig("average"), k=5)(results)
    theirs = pyterrier_dr.AveragePrf(k=5)(results)
    assert ours.columns.tolist() == theirs.columns.tolist()
    np.testing.assert_allclose(np.stack(ours["query_vec"]), np.stack(theirs["query_vec"]), atol=1e-6)


def test_an_experiment_beside_gar_and_ladr(toy, index, topics, searcher):
    dense, graph = index.retriever(num_results=10), index.corpus_graph(4)

    def label(line):
        return float(HashReranker().predict([(line["query"], toy.texts[line["docno"]])])[0])

    prf = index.vec_loader() >> TourVectorPrf(HashReranker(), toy.texts, TourConfig("hard"), k=5)
    tour = Tour(searcher, num_results=10)
    pipelines = {
        "GAR": dense >> GAR(pt.apply.doc_score(label), graph, num_results=10, batch_size=5),
        "LADR": dense >> index.ladr(4),
        "PRF": dense >> prf >> dense,
        "TouR": tour,
        "dense, TouR": dense >> tour,
    }
    qrels = pd.DataFrame({"qid": toy.q_ids, "docno": "d7", "label": 1})
    table = pt.Experiment([*pipelines.values()], topics, qrels, [RR, R @ 10], names=[*pipelines], validate="ignore")
    found = searcher.batch_search(toy.queries, toy.q_ids, k=10)
    shares = [any(hit.docid == "d7" for hit in hits) for hits in found.values()]
    assert table.set_index("name")["R@10"]["TouR"] == pytest.approx(np.mean(shares))
    assert len(table) == 5 and table["RR"].between(0, 1).all()
