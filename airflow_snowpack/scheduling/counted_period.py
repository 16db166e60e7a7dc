"""How far back the longest ``MaxRuns`` of any gate counts: what it counts must not be deleted before.

    remember_period(conn, constraints)     # when a run comes to a gate
    longest_of_gates(store)

Gates are declared in DAG files, and only the runs that came to them are in the store, many of each. So the longest period is kept
as a fact of the store, which grows when a longer one comes and never shrinks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.scheduling.constraints.constraint import Constraint
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.schedule import parse_constraints
from airflow_snowpack.store import Store
from airflow_snowpack.store.schema import store_facts
from airflow_snowpack.store.tables.schedules import gated_runs

FACT = "longest_max_runs_of_gates"
DIGITS = 12
"""Of the seconds, as text of one length, so that the database compares them as it compares text."""


def remember_period(conn: sa.Connection, constraints: Iterable[Constraint]) -> None:
    """Keep the longest period of these constraints, if it is longer than any before."""
    period = longest_period(constraints)
    if not period:
        return
    known = _known(conn)
    # In a store of an earlier release, those that came before count too.
    if period > (_find(conn) if known is None else known):
        _keep(conn, period)


def longest_of_gates(store: Store) -> timedelta:
    """Return the longest period that a gate counts over; a store without the fact looks once through all runs of gates."""
    known = store.read(_known)
    return store.transact(_find) if known is None else known


def longest_period(constraints: Iterable[Constraint]) -> timedelta:
    """Return the longest period that ``MaxRuns`` among these counts over; zero without any."""
    return max((each.required_facts("").launches_within for each in constraints), default=timedelta(0))


def periods_in(conn: sa.Connection, column: sa.ColumnElement[object]) -> timedelta:
    """Return the longest period in a column of constraints as JSON."""
    said = sa.cast(column, sa.Text)
    texts = conn.execute(sa.select(said).where(said.is_not(None)).distinct()).scalars()
    return max((longest_period(_readable(text)) for text in texts), default=timedelta(0))


def _find(conn: sa.Connection) -> timedelta:
    _keep(conn, periods_in(conn, gated_runs.c.constraints))
    found = _known(conn)
    assert found is not None, "it was written a moment ago"
    return found


def _known(conn: sa.Connection) -> timedelta | None:
    value = conn.execute(sa.select(store_facts.c.value).where(store_facts.c.name == FACT)).scalar()
    return None if value is None else timedelta(seconds=int(value))


def _keep(conn: sa.Connection, period: timedelta) -> None:
    insert = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    new = insert(store_facts).values(name=FACT, value=f"{-int(-period.total_seconds() // 1):0{DIGITS}d}")
    longer = store_facts.c.value < new.excluded.value
    conn.execute(new.on_conflict_do_update(index_elements=["name"], set_={"value": new.excluded.value}, where=longer))


def _readable(text: str) -> tuple[Constraint, ...]:
    """Without what a newer version wrote, which launches nothing here until it is changed."""
    found: list[Constraint] = []
    declared = json.loads(text)
    for each in declared if isinstance(declared, list) else ():
        try:
            found += parse_constraints([each])
        except InvalidSchedule:
            continue
    return tuple(found)
