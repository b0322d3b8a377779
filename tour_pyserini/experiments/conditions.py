"""Conditions of a file, sweeps spread out."""

from tour_pyserini.experiments.cells import PARTS
from tour_pyserini.experiments.definition import Condition, Sweep
from tour_pyserini.experiments.sections import Section


def read_conditions(key: str, section: Section) -> tuple[Sweep | None, dict[str, Condition]]:
    """The condition by its name, or a sweep with one for each of its values: `mix-30`."""
    title, flags = section.text("name", key), section.flags("flags")
    restricted = section.section("only", allowed=PARTS)
    only = {name: restricted.names(name) for name in restricted.values}
    if "sweep" not in section.values:
        return None, {key: Condition(title, flags, None, None, only)}
    swept = section.section("sweep").values
    if len(swept) != 1 or not isinstance(values := next(iter(swept.values())), list) or not values:
        section.refuse("must sweep one flag over a list of values")
    flag = next(iter(swept))
    for value in values:
        if not isinstance(value, int | float):
            section.refuse(f"sweeps --{flag} over {value!r}, which is not a number")
    return Sweep(title, flag), {
        f"{key}-{value}": Condition(f"{title}, {flag} {value}", {**flags, flag: value}, key, float(value), only)
        for value in values
    }
