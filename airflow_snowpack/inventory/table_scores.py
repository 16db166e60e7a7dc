"""The tables of a catalog by their need for maintenance, from stored health alone.

    scores = TableScores(store, inventory)
    scores.page(database="analytics", limit=50).items[0].score      # of the table that needs maintenance most
    scores.counts().sick

Unreadable tables come first, then tables by ascending score, then tables without stored health. A score changes when a table is
read again, so a table may move to another page between two requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.inventory.condition import Condition
from airflow_snowpack.inventory.inventory import Inventory
from airflow_snowpack.store import Keyset, Page, Store
from airflow_snowpack.store.tables.health import table_health
from airflow_snowpack.store.tables.jobs import inventory_tables

UNREADABLE, NOT_READ = -1, 101
"""Sort before the lowest and after the highest score."""

_NEED = sa.case(
    (table_health.c.problem.is_not(None), sa.literal(UNREADABLE)), else_=sa.func.coalesce(table_health.c.score, NOT_READ)
)


@dataclass(frozen=True, slots=True)
class TableScore:
    """The stored score of one table.

    :param score: from 0 (sick) to 100 (healthy); ``None`` if the table was never read, or could not be read.
    :param problem: why the table could not be read.
    :param read_at: ``None`` for never.
    :param need: the sort key, from ``-1``; ``row_key`` breaks ties.
    """

    table: TableName
    score: int | None
    problem: str | None
    read_at: datetime | None
    need: int
    row_key: str

    @property
    def condition(self) -> Condition:
        return Condition.of(self.score, self.problem)

    def place(self, *, by_name: bool) -> str:
        """Return where the next page begins after this table: its name, or a cursor for the order by need."""
        return self.table.dotted if by_name else Keyset.cursor(self.need, self.row_key)


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """The number of tables of a catalog by condition, and when the oldest stored health was read."""

    by_condition: dict[Condition, int]
    oldest_read_at: datetime | None = None

    @property
    def sick(self) -> int:
        """The number of tables with a score below 50."""
        return self.by_condition[Condition.SICK]

    @property
    def fair(self) -> int:
        """The number of tables with a score from 50 to 79."""
        return self.by_condition[Condition.FAIR]

    @property
    def unreadable(self) -> int:
        """The number of tables whose metadata could not be read."""
        return self.by_condition[Condition.UNREADABLE]

    @property
    def read(self) -> int:
        """The number of tables with a score."""
        return sum(self.by_condition.values()) - self.unreadable - self.not_read

    @property
    def not_read(self) -> int:
        """The number of tables without stored health."""
        return self.by_condition[Condition.NOT_READ]


class TableScores:
    """The scores of the listed tables of one catalog."""

    def __init__(self, store: Store, inventory: Inventory) -> None:
        self._store = store
        self._inventory = inventory

    def page(
        self,
        *,
        database: str | None = None,
        search: str | None = None,
        by_name: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[TableScore]:
        """Return a page of the tables, those most in need of maintenance first, in one statement.

        :param search: part of ``database.table``, ignoring case.
        :param by_name: order by name instead.
        :param after: ``next`` of the previous page: see :meth:`TableScore.place`.
        :raises InvalidCursor: no page by need returned this cursor.
        """
        tables = self._scored(database, search, after if by_name else None)
        by_need = Keyset(*(cast("sa.Column[Any]", tables.c[name]) for name in ("need", "row_key")))
        query = sa.select(tables).where(*by_need.beyond(None if by_name else after))
        rows = self._store.all(query.order_by(*([tables.c.row_key] if by_name else by_need.order())).limit(limit + 1))
        shown = tuple(self._score(row) for row in rows[:limit])
        return Page(shown, shown[-1].place(by_name=by_name) if len(rows) > limit else None)

    def counts(self) -> ScoreCounts:
        """Count the tables by condition in one statement; if the catalog was never listed, those with health in a second."""
        counts = self._count(self._scored())
        if any(counts.by_condition.values()):
            return counts
        h, example = table_health.c, self._inventory.table("a", "a")
        stored = sa.select(_NEED.label("need"), h.read_at).where(h.catalog == (example.catalog_id or example.catalog))
        return self._count(stored.subquery("stored"))

    def _count(self, tables: sa.Subquery) -> ScoreCounts:
        number, oldest = sa.func.count().label("number"), sa.func.min(tables.c.read_at).label("oldest")
        grouped = sa.select(tables.c.need, number, oldest).group_by(tables.c.need)
        found, oldest_read_at = dict.fromkeys(Condition, 0), list[datetime]()
        for row in self._store.all(grouped):
            found[_condition(row.need)] += row.number
            oldest_read_at += [row.oldest] if row.oldest is not None else []
        return ScoreCounts(found, min(oldest_read_at, default=None))

    def _scored(self, database: str | None = None, search: str | None = None, after: str | None = None) -> sa.Subquery:
        """Select the listed tables with their stored health."""
        t, h = inventory_tables.c, table_health.c
        prefix = self._inventory.table("a", "a").lock_key.removesuffix("a.a")
        health_key = sa.literal(prefix) + t.database_name + "." + t.table_name
        columns = (t.database_name, t.table_name, h.score, h.problem, h.read_at)
        query = sa.select(t.table_key.label("row_key"), *columns, _NEED.label("need"))
        listed = query.select_from(inventory_tables.outerjoin(table_health, h.table_key == health_key))
        return listed.where(*self._inventory.conditions(database, search, after)).subquery("scored")

    def _score(self, row: Any) -> TableScore:
        table = self._inventory.table(row.database_name, row.table_name)
        return TableScore(table, row.score, row.problem, row.read_at, row.need, row.row_key)


def _condition(need: int) -> Condition:
    if need == UNREADABLE:
        return Condition.UNREADABLE
    return Condition.of(None if need == NOT_READ else need)
