"""Real tables, and the actions on them as a worker runs them: for the tests of maintenance on Spark.

name = world.fragmented(commits=3)
world.run(name, Action.REWRITE_DATA_FILES, min_input_files=2).message
world.content(name)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from held_jobs import held_jobs
from running_jobs import running_job

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionResult, Job
from airflow_snowpack.maintenance import DEFAULT_ORDER, PlanningContext, SparkEngine, parse_options, plan_action
from airflow_snowpack.maintenance.plan import reader_for
from airflow_snowpack.maintenance.removals.records import Removals

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_snowpack.maintenance import ActionEffect

Kind = tuple[tuple[str, Any], ...]
WEEK = timedelta(days=7)


@dataclass
class FirstMade:
    """The first table of each kind: its metadata file, and a copy of its folder."""

    folder: Path
    tables: dict[Kind, tuple[str, Path]] = field(default_factory=dict)


@dataclass
class SparkWorld:
    """The session and the catalog of the test run, and an engine of this test.

    :param removals: where the engine keeps the lists of what it deletes.
    :ivar new_table: makes an empty table, as the fixture of that name.
    :ivar append: commits rows to a table with PyIceberg, as the fixture of that name.
    """

    spark: SparkSession
    catalog: Catalog
    removals: Removals
    new_table: Callable[..., TableName]
    append: Callable[..., None]
    first_made: FirstMade

    def __post_init__(self) -> None:
        self.engine = self.new_engine()
        self._kinds = set[Kind]()

    def new_engine(self, *, later: timedelta = timedelta(0), **options: Any) -> SparkEngine:
        """Return an engine whose clock is ahead by ``later``."""
        clock = partial(_now, later)
        return SparkEngine(lambda: self.spark, lambda: self.catalog, removals=self.removals, now=clock, **options)

    # --- jobs ---

    def job(self, table: TableName, **given: Mapping[str, Any]) -> Job:
        """Return a job for a table; options by action, such as ``rewrite_data_files={"min_input_files": 2}``.

        Spark runs each action, needed or not, unless its options say ``only_if_needed``: the tests are about what Spark does.
        """
        actions = dict.fromkeys((*DEFAULT_ORDER, *given))
        options = {action: {"only_if_needed": False, **given.get(action, {})} for action in actions}
        return running_job(self.removals.store, table, options)

    def run(self, table: TableName, action: str, *, engine: SparkEngine | None = None, **options: Any) -> ActionResult:
        """Run an action on a table with these options."""
        return (engine or self.engine).run(self.job(table, **{str(action): options}), action)

    def preview(self, table: TableName, action: str, *, later: timedelta = timedelta(0), **options: Any) -> ActionEffect:
        """Return what a dry run of the action says."""
        parsed = parse_options(action, options)
        return plan_action(parsed, PlanningContext(reader_for(self.table(table), [parsed]), self.catalog, _now(later)))

    def meanwhile(self, *actions: Callable[[], object], until_the_end: bool = False) -> AbstractContextManager[None]:
        """Do something while the next Spark jobs wait for a task slot, as :func:`held_jobs` says."""
        return held_jobs(self.spark, *actions, until_the_end=until_the_end)

    # --- tables ---

    def table(self, name: TableName) -> Table:
        """Return PyIceberg's view of a table as it is now."""
        return self.catalog.load_table(name.identifier)

    def content(self, name: TableName) -> list[tuple[Any, ...]]:
        """Return the rows of a table, read without Spark, as another engine would; maintenance must not change them."""
        return sorted(tuple(row.values()) for row in self.table(name).scan().to_arrow().to_pylist())

    def ids(self, name: TableName) -> list[int]:
        return sorted(self.table(name).scan().to_arrow()["id"].to_pylist())

    def sql(self, statement: str) -> list[Any]:
        return self.spark.sql(statement).collect()

    def value(self, statement: str) -> Any:
        """Return the first column of the only row of a query."""
        ((value,),) = self.sql(statement)
        return value

    def folder(self, name: TableName) -> Path:
        return Path(self.table(name).location().removeprefix("file:").removeprefix("//"))

    def stray(self, table: TableName, name: str, content: bytes = b"stray") -> Path:
        """Write a file into the folder of a table's data that is a week old and that no metadata names."""
        path = self.folder(table) / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return aged(path)

    def fragmented(self, **arguments: Any) -> TableName:
        """Make a partitioned merge-on-read table of many small commits, some rows of which were deleted again.

        Its arguments are those of :meth:`_made`. Tables that are made alike have one folder, which is as the first of them was
        each time: one of a kind for each test.
        """
        kind = tuple(sorted(arguments.items()))
        assert kind not in self._kinds, "another table has the folder"
        self._kinds.add(kind)
        made = self.first_made
        if kind not in made.tables:
            table = self.table(self._made(**arguments))
            kept = made.folder / uuid4().hex
            shutil.copytree(table.location().removeprefix("file:"), kept)
            self.catalog.drop_table(table.name())
            made.tables[kind] = table.metadata_location, kept
        metadata_file, kept = made.tables[kind]
        folder = Path(metadata_file.removeprefix("file:")).parents[1]
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        name = TableName(self.catalog.name, "db", f"t_{uuid4().hex[:12]}")
        self.catalog.register_table(name.identifier, metadata_file)
        return name

    def _made(
        self,
        commits: int = 6,
        parts: int = 2,
        deletes: int = 2,
        rows: int = 40,
        inserted_by_spark: bool = False,
        **properties: str,
    ) -> TableName:
        """PyIceberg makes the appends, or Spark with ``inserted_by_spark``; the deletes are always Spark's."""
        name = self.new_table("id BIGINT, part INT, note STRING", "part", **properties)
        for first in range(0, commits * rows, rows):
            if inserted_by_spark:
                source = f"range({first}, {first + rows}, 1, 1)"
                self.sql(f"INSERT INTO {name.quoted} SELECT id, id % {parts}, concat('n', id) FROM {source}")
            else:
                ids = range(first, first + rows)
                self.append(name, id=ids, part=[number % parts for number in ids], note=[f"n{number}" for number in ids])
        for number in range(deletes):
            self.sql(f"DELETE FROM {name.quoted} WHERE id % 10 = {number}")
        return name


def aged(path: Path, age: timedelta = WEEK) -> Path:
    """Make a file older."""
    moment = path.stat().st_mtime - age.total_seconds()
    os.utime(path, (moment, moment))
    return path


def _now(later: timedelta) -> datetime:
    return datetime.now(UTC) + later
