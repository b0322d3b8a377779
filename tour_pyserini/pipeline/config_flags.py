"""The method and its settings, as flags describe them."""

from collections.abc import Mapping
from typing import Any

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError

PRF_METHODS = {"avg": "average", "rocchio": "rocchio"}
"""Pyserini's names of methods, and ours."""


def config_from_flags(flags: Mapping[str, Any]) -> TourConfig:
    """The settings that flags describe.

    Args:
        flags: by name, with underscores: `preset` or `config` to start from, `method`, any setting, and Pyserini's
            names `prf_depth`, `prf_method` and `rocchio_topk`.
    """
    given = dict(flags)
    preset, path = given.pop("preset", None), given.pop("config", None)
    if "prf_method" in given and "prf_depth" not in given:
        raise TourError("--prf-method says how --prf-depth passages are used: give --prf-depth too, or --method.")
    prf_depth, prf_method = given.pop("prf_depth", 0), given.pop("prf_method", None)
    if prf_method and given.get("method", PRF_METHODS[prf_method]) != PRF_METHODS[prf_method]:
        raise TourError(f"--prf-method {prf_method} and --method {given['method']} contradict each other; give one.")
    if prf_depth and "depth" in given:
        raise TourError("--depth and --prf-depth are two names of one setting; give one of them.")
    if preset and path:
        raise TourError("--preset and --config both say where to start; give one of them.")
    if "rocchio_topk" in given:
        if "positives" in given:
            raise TourError("--positives and --rocchio-topk are two names of one setting; give one of them.")
        given["positives"] = given.pop("rocchio_topk")
    if prf_depth:
        given["depth"] = prf_depth
        if not (preset or path):
            given.setdefault("method", PRF_METHODS[prf_method or "avg"])
    if path:
        return TourConfig.load(path).replace(**given)
    return TourConfig.preset(preset).replace(**given) if preset else TourConfig(**given)
