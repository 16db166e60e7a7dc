"""Counters that only grow, in the transaction of what they count.

    counts = Counts()
    counts.add("jobs_ended", status="failed")
    counts.observe("job_seconds", 12.5, BUCKETS)
    add_counts(conn, counts.rows())
    read_counters(store)         # {"jobs_ended": {(("status", "failed"),): 1.0}, …}

The invariant: what a transaction did is counted once if it commits, and not at all otherwise. A counter survives the processes
that count and the rows that were counted, so all processes that share a store report the same. There are as many rows as
combinations of labels, times :data:`SLOTS`: label values come from a small set, and are never names of tables or users.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.clock_and_ids import new_id
from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.store import Store
from airflow_snowpack.store.tables.counters import counters

SLOTS = 8
"""How many rows a counter has at most."""
SUM = "_sum"
"""The suffix of the counter that sums up the observations of a histogram."""
BUCKET = "le"
"""The label of a histogram's bucket: its upper bound. Each observation is in one bucket."""
INFINITE = "+Inf"

Labels = tuple[tuple[str, str], ...]

PARAMETERS: dict[str, sa.types.TypeEngine[Any]] = {
    "c_name": sa.Text(),
    "c_labels": sa.Text(),
    "c_slot": sa.Integer(),
    "c_value": sa.Float(),
}


class Counts:
    """What one transaction counts."""

    def __init__(self) -> None:
        self._amounts: defaultdict[tuple[str, str], float] = defaultdict(float)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add an amount, which is not negative, to a counter."""
        self._amounts[name, json.dumps(labels, sort_keys=True)] += amount

    def observe(self, name: str, value: float, bounds: Sequence[float], **labels: str) -> None:
        """Add a value to a histogram.

        :param bounds: the upper bounds of its buckets, ascending; the last bucket, without a bound, is not one of them.
        """
        place = bisect_left(bounds, value)
        self.add(name, 1, **labels, **{BUCKET: f"{bounds[place]:g}" if place < len(bounds) else INFINITE})
        self.add(f"{name}{SUM}", max(value, 0.0), **labels)

    def rows(self) -> list[dict[str, Any]]:
        """Return the parameters of :data:`ADD`, ordered so that two transactions do not deadlock."""
        slot = int(new_id(), 16) % SLOTS
        return [
            {"c_name": name, "c_labels": labels, "c_slot": slot, "c_value": amount}
            for (name, labels), amount in sorted(self._amounts.items())
        ]


def increase(source: sa.FromClause | None = None) -> Any:
    """Return the statement that adds counts.

    :param source: a row of what is counted, on Postgres, with all counts as one parameter ``b_counts``: without it nothing is
        counted. ``None`` for one count and its parameters.
    """
    if source is None:
        given: Any = sa.select(*(sa.bindparam(name, type_=kind) for name, kind in PARAMETERS.items())).where(sa.true())
    else:
        typed: list[Any] = [sa.column(name, kind) for name, kind in PARAMETERS.items()]
        counts = sa.func.json_to_recordset(sa.bindparam("b_counts", type_=sa.JSON)).table_valued(*typed)
        counts = counts.render_derived(with_types=True)
        given = sa.select(*(counts.c[name] for name in PARAMETERS)).where(sa.select(source).exists())
    new = insert(counters).from_select(["name", "labels", "slot", "value"], given)
    return new.on_conflict_do_update(
        index_elements=list(counters.primary_key), set_={"value": counters.c.value + new.excluded.value}
    )


ADD = increase()
READ = sa.select(counters.c.name, counters.c.labels, sa.func.sum(counters.c.value).label("value")).group_by(
    counters.c.name, counters.c.labels
)


def add_counts(conn: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add what :meth:`Counts.rows` returned, as the last write of the transaction."""
    if rows:
        conn.execute(ADD, rows)


def read_counters(store: Store) -> dict[str, dict[Labels, float]]:
    """Return all counters by name and labels, in one statement."""
    found: dict[str, dict[Labels, float]] = {}
    for row in store.all(READ):
        found.setdefault(row.name, {})[tuple(sorted(json.loads(row.labels).items()))] = row.value
    return found
