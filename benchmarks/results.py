"""What a benchmark finds: single measurements, and findings that compare them with a target."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One run of one contender.

    :param per_s: jobs a second by the wall clock; believe it only when ``foreign_cpu`` is small.
    :param cpu_us: microseconds of CPU a job, client and server together; nearly the same on a busy machine.
    :param foreign_cpu: cores that other programs took meanwhile.
    """

    what: str
    contender: str
    n: int
    seconds: float
    per_s: float
    cpu_us: float
    foreign_cpu: float
    setting: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        said = "  ".join(f"{name}={value}" for name, value in (self.setting | self.extra).items())
        return (
            f"{self.what:10} {self.contender:14} {self.per_s:>9,.0f}/s {self.cpu_us:>8,.0f} µs CPU/job"
            f"  foreign={self.foreign_cpu:.2f}  n={self.n}  {said}"
        )


@dataclass(frozen=True)
class Finding:
    """A figure beside its target; without one it only informs."""

    what: str
    value: float
    at_most: float | None = None
    at_least: float | None = None
    says: str = ""

    @property
    def holds(self) -> bool | None:
        if self.at_most is not None:
            return self.value <= self.at_most
        if self.at_least is not None:
            return self.value >= self.at_least
        return None

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return f"≥ {self.at_least:g}" if self.at_least is not None else ""

    def __str__(self) -> str:
        verdict = {True: "holds", False: "MISSED", None: ""}[self.holds]
        return f"{self.what:72} {self.value:>9.3g}  {self.target:8} {verdict:7} {self.says}".rstrip()


class Results:
    """Collects and prints as it goes."""

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []
        self.findings: list[Finding] = []

    def add(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)
        print(measurement, flush=True)

    def find(self, finding: Finding) -> None:
        self.findings.append(finding)
        print("=>", finding, flush=True)

    def median(self, figure: str, what: str, contender: str, **setting: Any) -> float:
        """The median of ``cpu_us``, ``per_s`` or ``seconds`` over the rounds of one setting."""
        found: list[float] = [getattr(each, figure) for each in self._matching(what, contender, setting)]
        return statistics.median(found)

    def as_json(self) -> dict[str, Any]:
        return {
            "findings": [{**asdict(each), "holds": each.holds} for each in self.findings],
            "measurements": [asdict(each) for each in self.measurements],
        }

    def _matching(self, what: str, contender: str, setting: dict[str, Any]) -> Iterator[Measurement]:
        for each in self.measurements:
            if (each.what, each.contender) == (what, contender) and setting.items() <= each.setting.items():
                yield each


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    head = list(header)
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
