"""A year in a box: what each unit of work costs in counts, in a store and a catalog that have seen a year of use.

Every count has a hard limit, and none may be larger than after a twentieth of the year's jobs, tables and schedules: cost follows
what an operation touches. Counts do not depend on the machine, so that one over its limit fails the benchmark.

    python -m benchmarks year                        # on SQLite; writes benchmarks/YEAR.md
    python -m benchmarks year --database postgres    # the same on Postgres, and writes nothing
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.counts import counting
from benchmarks.results import Finding, Results, table
from benchmarks.year_fill import Sizes, Year, filled_year
from benchmarks.year_units import UNITS, Unit

REPORT = Path(__file__).parent / "YEAR.md"
PART = 20
STEPS_GROW = 1.5
"""B-trees of twenty times the rows are a level deeper; a walk over the rows takes twenty times the steps."""
FEW_STEPS = 2.0


@dataclass(frozen=True)
class Counted:
    """One count of one unit of work.

    :ivar before: the same after a part of the year; ``None`` for a count that is not to be compared.
    """

    unit: str
    what: str
    value: float
    limit: float
    before: float | None

    @property
    def is_over(self) -> bool:
        return self.value > self.limit

    @property
    def grows(self) -> bool:
        if self.before is None:
            return False
        return self.value > (max(self.before * STEPS_GROW, FEW_STEPS) if self.what == "steps" else self.before)

    def __str__(self) -> str:
        return f"{self.unit}: {self.what.replace('_', ' ')}"


def run(
    results: Results, *, sizes: Sizes | None = None, part: int = PART, open_database: Callable[[str], str] | None = None
) -> list[Counted]:
    """Fill both years, run each unit in both, and compare.

    :param part: the earlier year has one of so many jobs, tables and schedules.
    :param open_database: returns the URL of an empty database by its name; ``None`` for files of SQLite.
    """
    whole = sizes or Sizes()
    found: list[Mapping[str, Mapping[str, float]]] = []
    with tempfile.TemporaryDirectory(prefix="snowpack-year-") as home, _quietly():
        for name, size in (("before", whole.after_part_of_the_year(part)), ("year", whole)):
            folder, began = Path(home) / name, time.monotonic()
            folder.mkdir()
            url = open_database(f"bench_year_{name}") if open_database else f"sqlite:///{folder / 'snowpack.db'}"
            with filled_year(url, folder / "lake", size) as year:
                print(f"{name}: {size}, filled in {time.monotonic() - began:.0f} s", flush=True)
                found.append({unit.name: measure(unit, year) for unit in UNITS})
    before, after = found
    counted = [each for unit in UNITS for each in _counted(unit, after[unit.name], before[unit.name], whole)]
    for each in counted:
        says = "" if each.before is None else f"{each.before:g} after 1/{part} of the year"
        results.find(Finding(str(each), each.value, at_most=each.limit, says=says))
    grown = [f"{each} {each.before:g} → {each.value:g}" for each in counted if each.grows]
    results.find(Finding("counts that grow with what the operation does not touch", len(grown), at_most=0, says="; ".join(grown)))
    return counted


def write_report(counted: Sequence[Counted], sizes: Sizes, facts: Mapping[str, object]) -> None:
    """Write ``benchmarks/YEAR.md``.

    :param facts: the command, the commit and the machine.
    """
    rows = [
        (each.unit, each.what.replace("_", " "), f"{each.value:g}", f"{each.limit:g}", _verdict(each), _before(each))
        for each in counted
    ]
    said = "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in facts.items())
    held = ", ".join(f"{value:,} {name}" for name, value in asdict(sizes).items())
    missed = sum(each.is_over for each in counted)
    columns = ["unit of work", "count", "value", "limit", "holds", f"after 1/{PART} of the year"]
    REPORT.write_text(
        "# A year in a box\n\nWritten by `make bench BENCH=year`; `docs/benchmarks.md` explains the counts.\n\n"
        f"{said}\n- the year holds: {held}\n- counts over their limit: {missed}\n"
        f"- counts that grow with what is not touched: {sum(each.grows for each in counted)}\n\n{table(columns, rows)}\n"
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the log, which has a line for each request and each sensor."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def _verdict(counted: Counted) -> str:
    return "**no**" if counted.is_over else "**grows**" if counted.grows else "yes"


def _before(counted: Counted) -> str:
    return "" if counted.before is None else f"{counted.before:g}"


def measure(unit: Unit, year: Year) -> Mapping[str, float]:
    """Count what a unit of work does."""
    with unit.prepare(year) as work, counting(year.store.engine) as counts:
        more = work()
    if os.environ.get("SNOWPACK_BENCH_STATEMENTS"):
        print(f"{unit.name}:", *counts.texts, sep="\n    ")
    return {**counts.numbers(), **(more or {})}


def _counted(unit: Unit, found: Mapping[str, float], before: Mapping[str, float], sizes: Sizes) -> Iterator[Counted]:
    for what, value in found.items():
        limit = unit.limit(what, sizes)
        if value or limit:
            earlier = None if what in unit.varies else round(before.get(what, 0.0), 1)
            yield Counted(unit.name, what, round(value, 1), limit, earlier)
