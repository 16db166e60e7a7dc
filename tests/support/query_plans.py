"""What a database makes of the statements that were sent to it: whether it looks rows up, or walks over whole tables.

sent = sent_by(store, scheduler.work)
assert scans(store, sent, ["pending_jobs", "schedules"]) == []
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Any

import sqlalchemy as sa
from heard_statements import direct_heard

from airflow_snowpack.store import Store

Sent = tuple[str, Any]
PLACEHOLDER = re.compile(r"%\((\w+)\)s")
PLANNED = ("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")


def sent_by(store: Store, do: Callable[[], object]) -> list[Sent]:
    """What is sent to the database meanwhile."""
    sent: list[Sent] = []

    def keep(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.startswith("EXPLAIN"):
            sent.append((statement, parameters))

    sa.event.listen(store.engine, "before_cursor_execute", keep)
    try:
        with direct_heard():
            do()
    finally:
        sa.event.remove(store.engine, "before_cursor_execute", keep)
    return sent


def plan(store: Store, statement: str, parameters: Any) -> list[str]:
    """On Postgres the one for whatever parameters, as the store's connections ask for it."""
    with store.engine.begin() as conn:
        if not store.is_postgres:
            return [str(row[-1]).strip() for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        names = list(dict.fromkeys(PLACEHOLDER.findall(statement)))
        numbered = PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
        return [str(row[-1]).strip() for row in conn.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN) {numbered}")]


def scans(store: Store, sent: Sequence[Sent], tables: Collection[str]) -> list[str]:
    """The steps of their plans that walk over a whole table of these, or over a whole index of it without a condition."""
    of = f"({'|'.join(tables)})"
    whole = re.compile(rf"(->\s+)?(Parallel )?(Seq Scan on|SCAN) {of}\b")
    # Not backward: that is how the greatest number is found.
    by_index = re.compile(rf"(->\s+)?(Parallel )?(Bitmap Heap Scan|Index( Only)? Scan using \w+) on {of}\b")
    return [
        f"{step}\n{statement}"
        for statement, parameters in _each_once(sent)
        for step, next_step in pairwise([*plan(store, statement, parameters), ""])
        if whole.match(step) or (by_index.match(step) and not next_step.startswith(("Index Cond", "Recheck Cond")))
    ]


def _each_once(sent: Sequence[Sent]) -> list[Sent]:
    """Each statement with some parameters; many sets of them at once are planned as one."""
    known = {statement: parameters for statement, parameters in sent if statement.lstrip().startswith(PLANNED)}
    return [(statement, some[0] if isinstance(some, list) else some) for statement, some in known.items()]
