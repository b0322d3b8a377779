"""Settings known by name: the paper's, its published code's, the baselines, and the default."""

from collections.abc import Mapping
from types import MappingProxyType

from tour_pyserini.core.config import TourConfig

# What all columns of the paper's hyper-parameter table share.
_PAPER = TourConfig(method="hard", momentum=0.99, weight_decay=0.01, p=0.5, tau=0.5, similarity_scale=1.0)

_PAPER_ODQA = _PAPER.replace(learning_rate=1.2, iterations=3, depth=10, score_weight=0.1)

PRESETS: Mapping[str, TourConfig] = MappingProxyType(
    {
        "default": TourConfig(),
        "paper-odqa-phrases": _PAPER_ODQA,
        "paper-passages-phrases": _PAPER.replace(learning_rate=1.2, iterations=1, depth=100, score_weight=1.0),
        "paper-passages-dpr": _PAPER.replace(learning_rate=0.2, iterations=1, depth=100, score_weight=1.0),
        # Where the published code departs from the paper's text.
        "official": _PAPER_ODQA.replace(weight_decay=0.1, gradient_clip=1.0, aggregation="softmax", stopping="nucleus"),
        "dense": TourConfig(method="dense", iterations=0),
        "rerank": TourConfig(method="rerank", iterations=0, score_weight=1.0),
        "rocchio": TourConfig(method="rocchio", iterations=1),
        "average": TourConfig(method="average", iterations=1, depth=3),
        # Peers, at 30 labels.
        "rocchio-rerank": TourConfig(method="rocchio-rerank", iterations=1, depth=30, calibrate="always"),
        "average-rerank": TourConfig(method="average-rerank", iterations=1, depth=30, calibrate="always"),
        "refit": TourConfig(method="refit", iterations=1, depth=30),
        "graph": TourConfig(method="graph", iterations=6, depth=5),
    }
)


def preset_for(method: str) -> TourConfig:
    """The settings to start from when only a method is named: the preset of that name, or the default with it."""
    return PRESETS[method] if method in PRESETS else TourConfig(method=method)
