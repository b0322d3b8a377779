"""Conditions of a file, sweeps spread out."""

from tour_pyserini.experiments.cells import PARTS
from tour_pyserini.experiments.definition import Condition, Sweep
from tour_pyserini.experiments.sections import Section


def read_conditions(key: str, section: Section) -> tuple[Sweep | None, dict[str, Condition]]:
    """The condition by its name, or a sweep with one for each of its values: `mix-30`.

    Where a sweep is restricted to some cells, its values that are named under `everywhere` are not.
    """
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
    everywhere = section.values.get("everywhere") or []
    if not isinstance(everywhere, list) or not all(value in values for value in everywhere):
        section.refuse(f"has everywhere: {everywhere!r}, which is not a list of values of its sweep")
    return Sweep(title, flag), {
        f"{key}-{value}": Condition(
            title=f"{title}, {flag} {value}",
            flags={**flags, flag: value},
            sweep=key,
            value=float(value),
            only={} if value in everywhere else only,
        )
        for value in values
    }
