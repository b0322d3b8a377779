"""Methods of one's own: as objects, by name, and what cannot be one."""

import numpy as np
import pytest
from halfway_method import halfway, registered
from memory_corpus import MemoryCorpus

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.method import Method, register_method
from tour_pyserini.core.settings import MethodSettings
from tour_pyserini.errors import TourError


def test_a_method_is_used_as_an_object_or_by_name():
    corpus = MemoryCorpus(np.eye(3), [[0.0, 0.0, 8.0]])
    config = TourConfig(halfway, share=0.25)
    (task,) = corpus.run(np.array([[3.0, 2.0, 1.0]]), config)
    assert task.outcome.vector.tolist() == [2.25, 1.5, 1.0]
    assert str(config).startswith("method=halfway ")
    with registered(halfway):
        assert TourConfig("halfway", share="0.25") == config == TourConfig.parse(str(config))


def test_what_cannot_be_registered():
    with pytest.raises(TourError, match="already"):
        register_method(Method("hard", halfway.run, MethodSettings))
    with pytest.raises(TourError, match="not a method"):
        register_method(halfway.run)
