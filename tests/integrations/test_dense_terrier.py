"""Beside pyterrier_dr: its columns of vectors, and its own PRF as an oracle."""

import numpy as np
import pytest

from tour_pyserini import TourConfig

pt = pytest.importorskip("pyterrier")
pyterrier_dr = pytest.importorskip("pyterrier_dr")
import pandas as pd  # noqa: E402

from tour_pyserini.integrations.terrier_transformers import TourVectorPrf  # noqa: E402


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
