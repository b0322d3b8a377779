"""What the campaign counts: the cases of an area, and those that failed."""

from dataclasses import dataclass, field


@dataclass
class Area:
    """One row of the table.

    Attributes:
        name: what is done to the commands.
        cases: how many times it was done.
        failures: what went wrong, with what is needed to do it again.
    """

    name: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, case: str, fault: str | None) -> None:
        """Count a case; a fault that is not None is a failure."""
        self.cases += 1
        if fault is not None:
            self.failures.append(f"{case}: {fault}")


def table(areas: list[Area]) -> str:
    """One line per area, and their sum."""
    rows = [[area.name, area.cases, len(area.failures), f"{area.seconds:.0f}"] for area in areas]
    total = [sum(area.cases for area in areas), sum(len(area.failures) for area in areas)]
    rows += [["all", *total, f"{sum(area.seconds for area in areas):.0f}"]]
    width = max(len(str(row[0])) for row in rows)
    lines = [f"{'area':<{width}}  {'cases':>7}  {'failures':>8}  {'seconds':>7}"]
    lines += [f"{name:<{width}}  {cases:>7}  {failures:>8}  {seconds:>7}" for name, cases, failures, seconds in rows]
    return "\n".join(lines)
