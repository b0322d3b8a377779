"""What `--sparse` may say, and the settings that need a further signal, or lose their meaning by one."""

from collections.abc import Collection

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.request import flag_name

OWN_BM25, NO_SIGNAL = "index", "none"
"""What `--sparse` may be instead of a name: the BM25 index beside the vectors of the index, or no signal at all."""
SIGNAL_SETTINGS = ("signal_weight", "signal_step", "signal_least_gain", "belief")
"""Settings that mean something only where there is a further signal."""

INSTEAD = {"score_weight": "belief", "anchor": "signal_step", "least_gain": "signal_least_gain"}
"""What says with a further signal what these settings say without."""


def check_signal_settings(given: Collection[str], config: TourConfig, *, signals: str | None, hint: str = "") -> None:
    """Refuse settings that change nothing with, or without, a further signal.

    Args:
        given: names of settings that were given.
        config: the method and its settings.
        signals: what finds candidates beside the index, for the message; None if nothing does.
        hint: what else the message advises.
    """
    if signals is None:
        for name in SIGNAL_SETTINGS:
            if name in given:
                raise TourError(f"{flag_name(name)} changes nothing without --sparse or --index2; leave it out.")
        return
    unused = config.method_class.unused_with_signals
    if config.method_class.keeps_labels:
        unused = ("score_weight", *unused)
    for name in unused:
        if name in given:
            instead = INSTEAD.get(name)
            advice = f"use {flag_name(instead)}{hint}" if instead else f"leave it out{hint}"
            raise TourError(
                f"{flag_name(name)} does not count for the method {config.method} with {signals}; {advice}."
            )


def changed_settings(config: TourConfig) -> set[str]:
    """The names of the settings that differ from the method's own defaults."""
    default = TourConfig(config.method).settings()
    return {name for name, value in config.settings().items() if value != default[name]}
