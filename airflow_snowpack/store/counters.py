"""Counters that only grow, in the transaction of what they count.

    counts = Counts()
    counts.add("jobs_ended", status="failed")
    counts.observe("job_seconds", 12.5, BUCKETS)
    add_counts(conn, counts)
    read_counters(store)         # {"jobs_ended": {(("status", "failed"),): 1.0}, …}

The invariant: what a transaction did is counted once if it commits, and not at all otherwise. A counter survives the processes
that count and the rows that were counted, so all processes that share a store report the same. A transaction only inserts a row;
:func:`sum_increments` adds such rows to the counters later. Label values come from a small set, and are never names of tables or
users.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.store import Store
from airflow_snowpack.store.tables.counters import counter_increments, counters

SUM = "_sum"
"""The suffix of the counter that sums up the observations of a histogram."""
BUCKET = "le"
"""The label of a histogram's bucket: its upper bound. Each observation is in one bucket."""
INFINITE = "+Inf"
EXACT = 1024
"""Observations are in parts of it, so that their sum has no rounding error, and no other one after :func:`sum_increments`: for
Prometheus, a counter that falls by its last digit was restarted, and all of it counts again."""
BATCH_SIZE = 5_000
"""How many increments one transaction adds to the counters."""
MAX_BATCHES = 20

Labels = tuple[tuple[str, str], ...]
Amounts = defaultdict[tuple[str, str], float]


class Counts:
    """What one transaction counts."""

    def __init__(self) -> None:
        self._amounts: Amounts = defaultdict(float)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add an amount, which is not negative, to a counter."""
        self._amounts[name, _encode(tuple(labels.items()))] += amount

    def observe(self, name: str, value: float, bounds: Sequence[float], **labels: str) -> None:
        """Add a value to a histogram.

        :param bounds: the upper bounds of its buckets, ascending; the last bucket, without a bound, is not one of them.
        """
        place = bisect_left(bounds, value)
        self.add(name, 1, **labels, **{BUCKET: f"{bounds[place]:g}" if place < len(bounds) else INFINITE})
        self.add(f"{name}{SUM}", round(max(value, 0.0) * EXACT) / EXACT, **labels)

    def row(self) -> list[list[Any]]:
        """Return the parameter ``b_counts`` of :func:`record_counts`."""
        return [[name, labels, amount] for (name, labels), amount in self._amounts.items()]


@lru_cache
def _encode(labels: Labels) -> str:
    """Cached, because the end of each job encodes the same few labels."""
    return json.dumps(dict(labels), sort_keys=True)


def record_counts(source: sa.FromClause | None = None) -> Any:
    """Return the statement that inserts counts, once for each row of ``source`` (default: once)."""
    given = sa.select(sa.bindparam("b_counts", type_=counter_increments.c.amounts.type))
    return sa.insert(counter_increments).from_select(["amounts"], given if source is None else given.select_from(source))


RECORD_COUNTS = record_counts()
TAKEN = sa.select(counter_increments.c.id).order_by(counter_increments.c.id).limit(BATCH_SIZE).with_for_update(skip_locked=True)
TAKE = sa.delete(counter_increments).where(counter_increments.c.id.in_(TAKEN)).returning(counter_increments.c.amounts)
NEW = insert(counters)
ADD = NEW.on_conflict_do_update(index_elements=list(counters.primary_key), set_={"value": counters.c.value + NEW.excluded.value})
NO_AMOUNTS = sa.type_coerce(sa.null(), counter_increments.c.amounts.type).label("amounts")
READ = sa.union_all(
    sa.select(counters.c.name, counters.c.labels, counters.c.value, NO_AMOUNTS),
    sa.select(sa.null(), sa.null(), sa.null(), counter_increments.c.amounts),
)
"""Both in one statement, which sees each increment once, wherever it is."""


def add_counts(conn: sa.Connection, counts: Counts) -> None:
    """Count as part of the transaction."""
    if row := counts.row():
        conn.execute(RECORD_COUNTS, {"b_counts": row})


def sum_increments(store: Store) -> None:
    """Add what was recorded to the counters, in short transactions; several processes may do so at once."""
    for _ in range(MAX_BATCHES):
        if store.transact(_sum_batch) < BATCH_SIZE:
            return


def _sum_batch(conn: sa.Connection) -> int:
    taken = conn.execute(TAKE).scalars().all()
    # Sorted, so that two transactions do not deadlock.
    rows = [
        {"name": name, "labels": labels, "slot": 0, "value": value} for (name, labels), value in sorted(_total(taken).items())
    ]
    if rows:
        conn.execute(ADD, rows)
    return len(taken)


def _total(increments: Iterable[Iterable[tuple[str, str, float]]]) -> Amounts:
    total: Amounts = defaultdict(float)
    for amounts in increments:
        for name, labels, amount in amounts:
            total[name, labels] += amount
    return total


def read_counters(store: Store) -> dict[str, dict[Labels, float]]:
    """Return all counters by name and labels, in one statement."""
    rows = store.all(READ)
    total = _total(row.amounts or [(row.name, row.labels, row.value)] for row in rows)
    found: dict[str, dict[Labels, float]] = {}
    for (name, labels), value in total.items():
        found.setdefault(name, {})[tuple(sorted(json.loads(labels).items()))] = value
    return found
