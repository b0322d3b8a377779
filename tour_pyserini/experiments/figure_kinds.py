"""What a figure's axes can be."""

from collections.abc import Mapping
from types import MappingProxyType

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "labels": "quality against labels per query",
        "seconds": "quality against seconds per query",
        "sweep": "quality against what was swept: iterations, for one",
        "efficiency": "labels and seconds per query against what was swept, with and without labels used again",
    }
)
