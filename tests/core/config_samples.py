"""Settings of all methods and of version 0.1, and the forms in which settings are given."""

import dataclasses
import math

from tour_pyserini.cli.search_flags import search_request
from tour_pyserini.core.methods import METHODS

# Every setting of version 0.1, which had one flat list for all methods, with values that are no method's defaults.
VERSION_0_1 = {
    "depth": 17,
    "iterations": 4,
    "budget": 90,
    "anchor": 5.5,
    "least_gain": 0.75,
    "learning_rate": 0.45,
    "momentum": 0.25,
    "weight_decay": 0.125,
    "p": 0.625,
    "tau": 1.5,
    "score_weight": 0.875,
    "early_stopping": False,
    "similarity_scale": 7.5,
    "calibrate": "never",
    "final_list": "union",
    "positives": 6,
    "rocchio_alpha": 0.375,
    "rocchio_beta": 0.5,
    "rocchio_gamma": -0.25,
    "interpolation_beta": 0.6,
    "gradient_clip": 2.5,
    "aggregation": "softmax",
    "stopping": "nucleus",
}
VERSION_0_1_DEFAULTS = {
    "depth": 10,
    "iterations": 3,
    "budget": 0,
    "anchor": 3.0,
    "least_gain": 0.2,
    "learning_rate": 0.2,
    "momentum": 0.0,
    "weight_decay": 0.01,
    "p": 0.5,
    "tau": 2.0,
    "score_weight": 0.5,
    "early_stopping": True,
    "similarity_scale": 20.0,
    "calibrate": "method",
    "final_list": "last",
    "positives": 3,
    "rocchio_alpha": 0.9,
    "rocchio_beta": 0.1,
    "rocchio_gamma": 0.1,
    "interpolation_beta": 0.3,
    "gradient_clip": math.inf,
    "aggregation": "linear",
    "stopping": "method",
}
# The methods of version 0.1, and which of their own settings they read. A later method needs no line here.
OWN = {
    "anchored": {"anchor", "least_gain", "signal_step", "signal_least_gain"},
    "anchored-soft": {"anchor", "least_gain", "signal_step", "signal_least_gain", "tau"},
    "anchored-hard": {"anchor", "least_gain", "signal_step", "signal_least_gain", "tau", "p"},
    "hard": {"learning_rate", "momentum", "weight_decay", "gradient_clip", "p", "tau", "stopping"},
    "soft": {"learning_rate", "momentum", "weight_decay", "gradient_clip", "p", "tau", "stopping"},
    "top": {"learning_rate", "momentum", "weight_decay", "gradient_clip", "positives"},
    "interpolation": {"p", "tau", "stopping", "interpolation_beta"},
    "rocchio": {"positives", "rocchio_alpha", "rocchio_beta", "rocchio_gamma"},
    "average": set(),
    "rerank": set(),
    "dense": set(),
    "rocchio-rerank": {"positives", "rocchio_alpha", "rocchio_beta", "rocchio_gamma"},
    "average-rerank": {"positives"},
    "refit": {"tau"},
    "regression": {"anchor", "least_gain", "signal_step", "signal_least_gain"},
    "graph": set(),
}
# Settings that version 0.1 did not have, with their defaults.
NEWER = {"mean_budget": 0, "signal_weight": 0.5, "belief": 0.4}
NEWER_OWN = {"signal_step": 0.7, "signal_least_gain": 0.1}
SHARED = {
    *("depth", "iterations", "budget", "score_weight", "early_stopping", "similarity_scale"),
    *("calibrate", "final_list", "aggregation", *NEWER),
}


def own_settings(method):
    return {field.name for field in dataclasses.fields(METHODS[method].Settings)}


def from_command_line(*flags):
    return search_request(["--topics", "topics.tsv", *flags]).config


def as_toml(settings):
    """The settings as a TOML file of version 0.1 has them."""
    lines = []
    for name, value in settings.items():
        text = f'"{value}"' if isinstance(value, str) else str(value).lower()
        lines.append(f"{name} = {text}\n")
    return "".join(lines)


def as_words(settings):
    """The settings as a run record of version 0.1 has them."""
    return " ".join(f"{name}={str(value).lower()}" for name, value in settings.items())
