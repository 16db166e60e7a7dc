"""A small copy of ``make bench BENCH=year``: no unit of work costs more than it touches. The same code, with small sizes.

Ten times the jobs and tables show a walk over all of them as clearly as a year does.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.year import Counted

pytestmark = pytest.mark.one_database

PART = 10


@pytest.fixture(scope="module")
def counted(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Counted]:
    from benchmarks import year
    from benchmarks.results import Results
    from benchmarks.year_fill import Sizes

    folder = tmp_path_factory.mktemp("year")
    small = Sizes(
        jobs=2_000, queued=20, old=20, tables=200, schedules=100, files=1_000, watched=50, waiting=30, sensors=8, awaited=4
    )

    def database(name: str) -> str:
        return f"sqlite:///{shutil.copy(migrated_sqlite, folder / f'{name}.db')}"

    return year.run(Results(), sizes=small, part=PART, open_database=database)


def test_each_unit_of_work_keeps_its_limits(counted: list[Counted]) -> None:
    over = {str(each): each.value for each in counted if each.is_over}

    assert over == {}


def test_no_count_grows_with_what_the_unit_of_work_does_not_touch(counted: list[Counted]) -> None:
    grown = {str(each): (each.before, each.value) for each in counted if each.grows}

    assert grown == {}
