"""Deletes rows that are older than their retention period, oldest first, in small batches.

    pruner = Pruner(store, kinds, older_than=timedelta(days=180))
    while pruner.step():      # one batch
        ...
    pruner.rows               # {"jobs": 1000, "job_history": 5210}

Each room declares its rows as :class:`RetainedRows`: the time from which their age counts, the index that finds them, and which
are still needed. The invariant: a batch is one transaction, and deletes a row together with the rows that belong to it, and only
if the row is old and unneeded at that moment. A killed process leaves nothing half deleted, and the next one continues.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.store import Store

BATCH_SIZE = 500
"""The most rows of a kind that one transaction deletes: about 0.1 s, for which other writers of an SQLite file wait."""
PAUSE = timedelta(milliseconds=50)
"""The pause between two batches that deleted rows, for other writers of an SQLite file."""
BEFORE: sa.BindParameter[datetime] = sa.bindparam("b_before", type_=UtcDateTime)
"""For the conditions of a kind: older rows are deleted."""

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RetainedRows:
    """Rows of one table that are deleted when they are old.

    :param age: the time from which a row's age counts.
    :param order: the columns of the scan, oldest first; an index begins with them, and the last ones make it unique.
    :param which: the part of the table that is scanned, with the same condition as the index.
    :param unneeded: whether a row may be deleted; it may use :data:`BEFORE`.
    :param held: returns those of these keys (of one column) that must stay, for conditions that involve other rows.
    :param belongings: columns of other tables that refer to the key (of one column); their rows are deleted with it.
    :param at_least: the minimum age, whatever period is requested.
    """

    table: sa.Table
    age: sa.Column[datetime]
    order: tuple[sa.Column[Any], ...]
    which: sa.ColumnElement[bool] | None = None
    unneeded: sa.ColumnElement[bool] | None = None
    held: Callable[[sa.Connection, Sequence[Any]], Collection[Any]] | None = None
    belongings: tuple[sa.Column[Any], ...] = ()
    at_least: timedelta = timedelta(0)

    @property
    def key(self) -> tuple[sa.Column[Any], ...]:
        return tuple(self.table.primary_key)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables from which rows are deleted."""
        return (self.table.name, *(column.table.name for column in self.belongings))


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one batch.

    :param rows: the number of rows deleted by table; in a dry run, the number that would be.
    :param after: where the next batch continues; ``None`` if no older row is left.
    """

    rows: Counter[str]
    after: Key | None


class Pruner:
    """Deletes old rows of several kinds, one batch per step.

    :param older_than: the retention period; a kind may keep its rows longer.
    :ivar rows: the number of rows deleted so far, by table.
    """

    def __init__(
        self,
        store: Store,
        kinds: Iterable[RetainedRows],
        *,
        older_than: timedelta,
        dry_run: bool = False,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        self._store = store
        self._dry_run = dry_run
        self._batch_size = batch_size
        self._remaining = [(kind, age_limit(store.clock(), max(older_than, kind.at_least))) for kind in kinds]
        self._after: Key | None = None
        self.rows: Counter[str] = Counter({name: 0 for kind, _ in self._remaining for name in kind.tables})

    def step(self) -> bool:
        """Delete one batch; return ``False`` when nothing is left to delete.

        :raises StoreUnreachable, StoreTooSlow: the store does not answer; a later step repeats the batch.
        """
        if not self._remaining:
            return False
        kind, before = self._remaining[0]
        batch = prune_batch(self._store, kind, before, after=self._after, dry_run=self._dry_run, limit=self._batch_size)
        self.rows.update(batch.rows)
        self._after = batch.after
        if batch.after is None:
            self._remaining.pop(0)
        return bool(self._remaining)

    def run(self, sleep: Callable[[float], None] = time.sleep) -> Counter[str]:
        """Delete all old rows; return their number by table."""
        before = -1
        while self.step():
            if not self._dry_run and self.rows.total() > before >= 0:
                sleep(PAUSE.total_seconds())
            before = self.rows.total()
        return self.rows


def age_limit(now: datetime, period: timedelta) -> datetime:
    """Return the time before which a row is older than the period."""
    return now - min(period, now - datetime.min.replace(tzinfo=now.tzinfo))


def prune_batch(
    store: Store,
    kind: RetainedRows,
    before: datetime,
    *,
    after: Key | None = None,
    dry_run: bool = False,
    limit: int = BATCH_SIZE,
) -> Batch:
    """Delete the old, unneeded rows among the ``limit`` oldest of a kind after the place where the previous batch ended."""
    rows = store.all(_oldest(kind, after, limit), {BEFORE.key: before})
    old = [row for row in rows if row.age < before]
    place = _values(old[-1], "order", kind.order) if len(old) == limit else None
    keys = [_values(row, "key", kind.key) for row in old if row.unneeded]
    if not keys:
        return Batch(Counter(), place)
    if dry_run:
        return Batch(store.read(lambda conn: _count(conn, kind, _free(conn, kind, keys))), place)
    return Batch(store.transact(lambda conn: _delete(conn, kind, before, _free(conn, kind, keys))), place)


def _oldest(kind: RetainedRows, after: Key | None, limit: int) -> sa.Select[Any]:
    columns = [column.label(f"order_{place}") for place, column in enumerate(kind.order)]
    columns += [column.label(f"key_{place}") for place, column in enumerate(kind.key)]
    unneeded = sa.true() if kind.unneeded is None else kind.unneeded
    query = sa.select(*columns, unneeded.label("unneeded"), kind.age.label("age")).order_by(*kind.order).limit(limit)
    if kind.which is not None:
        query = query.where(kind.which)
    if kind.order[0] is kind.age:
        query = query.where(kind.age < BEFORE)
    if after is not None:
        values = [sa.literal(value, column.type) for value, column in zip(after, kind.order, strict=True)]
        # The first condition is for an index that has the first column only.
        query = query.where(kind.order[0] >= values[0], sa.tuple_(*kind.order) > sa.tuple_(*values))
    return query


def _free(conn: sa.Connection, kind: RetainedRows, keys: list[Key]) -> list[Key]:
    held = kind.held(conn, [key[0] for key in keys]) if kind.held is not None else ()
    return [key for key in keys if key[0] not in held]


def _count(conn: sa.Connection, kind: RetainedRows, keys: list[Key]) -> Counter[str]:
    rows = Counter({kind.table.name: len(keys)})
    for column in kind.belongings:
        belonging = sa.select(sa.func.count()).where(column.in_([key[0] for key in keys]))
        rows[column.table.name] += conn.execute(belonging).scalar_one()
    return rows


def _delete(conn: sa.Connection, kind: RetainedRows, before: datetime, keys: list[Key]) -> Counter[str]:
    """Delete the rows that are still old and unneeded, with the rows that belong to them."""
    if not keys:
        return Counter()
    still = [kind.age < BEFORE, *([] if kind.unneeded is None else [kind.unneeded])]
    if len(kind.key) > 1:
        # Key by key: Postgres looks up a list of pairs by a bitmap scan, which the store disables.
        same = [column == sa.bindparam(f"b_key_{place}", type_=column.type) for place, column in enumerate(kind.key)]
        values = [{BEFORE.key: before, **{f"b_key_{place}": value for place, value in enumerate(key)}} for key in keys]
        return Counter({kind.table.name: conn.execute(sa.delete(kind.table).where(*same, *still), values).rowcount})
    (key,) = kind.key
    delete = sa.delete(kind.table).where(key.in_([value for (value,) in keys]), *still).returning(key)
    gone = conn.execute(delete, {BEFORE.key: before}).scalars().all()
    rows = Counter({kind.table.name: len(gone)})
    for column in kind.belongings if gone else ():
        rows[column.table.name] += conn.execute(sa.delete(column.table).where(column.in_(gone))).rowcount
    return rows


def _values(row: sa.Row[Any], what: str, columns: tuple[sa.Column[Any], ...]) -> Key:
    return tuple(getattr(row, f"{what}_{place}") for place in range(len(columns)))
