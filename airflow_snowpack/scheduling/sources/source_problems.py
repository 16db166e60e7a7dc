"""What is wrong with the tables and DAGs that schedules listen to, and how far behind their reading is.

    write_problem(conn, store, key, Found(ProblemKind.MISSING, "…"), known)     # known: what read_problems returned before
    read_problems(conn, keys)

The poller and the scheduler record problems. The invariant: a source without a row has no problem, or has not been read yet. A
row is written when the state of the source changes, and once a minute while the problem lasts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.errors import TableNotFound
from airflow_snowpack.scheduling.triggers.trigger import TABLES
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import upsert
from airflow_snowpack.store.tables.schedules import schedule_triggers, source_problems, table_places

if TYPE_CHECKING:
    from pyiceberg.table import Table

WRITE_EVERY = timedelta(minutes=1)
KEYS_PER_STATEMENT = 500


class ProblemKind(StrEnum):
    """What is wrong with a source: it does not exist, it cannot be read, or it has no partitions."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNPARTITIONED = "unpartitioned"


@dataclass(frozen=True, slots=True)
class Found:
    """A problem of a source, as it was just found.

    :param problem: the error, for people; empty where the kind is enough.
    """

    kind: ProblemKind
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """A recorded problem.

    :param began_at: when it was first found, and ``asked_at``: when it was last confirmed.
    """

    kind: ProblemKind
    problem: str
    began_at: datetime
    asked_at: datetime


def found_in(table: Table) -> Found | None:
    """Return what is wrong with a table that could be read."""
    return Found(ProblemKind.UNPARTITIONED) if table.spec().is_unpartitioned() else None


def found_with(error: Exception) -> Found:
    """Return the problem of a table from the error of reading it."""
    if isinstance(error, TableNotFound):
        return Found(ProblemKind.MISSING, str(error))
    if isinstance(error, SnowpackError):
        return Found(ProblemKind.UNREADABLE, str(error))
    first_line = (str(error).splitlines() or [""])[0]  # drivers add the statement and a link below
    return Found(ProblemKind.UNREADABLE, f"{type(error).__name__}: {first_line:.300}")


def is_news(found: Found | None, known: SourceProblem | None, now: datetime) -> bool:
    """Return whether a finding differs from the record, or the record needs a new time."""
    if found is None or known is None:
        return (found is None) != (known is None)
    if (found.kind, found.problem) != (known.kind, known.problem):
        return True
    return found.kind is not ProblemKind.UNPARTITIONED and now - known.asked_at >= WRITE_EVERY


def write_problem(conn: sa.Connection, store: Store, key: str, found: Found | None, known: SourceProblem | None) -> None:
    """Record the state of a source, if it is news.

    :param key: the key of its events for a table, :func:`dag_source` for a DAG.
    :param found: what is wrong; ``None`` when nothing is.
    :param known: the record.
    """
    now = store.clock()
    if not is_news(found, known, now):
        return
    if found is None:
        conn.execute(sa.delete(source_problems).where(source_problems.c.key == key))
        return
    began_at = known.began_at if known is not None and known.kind is found.kind else now
    values = {"kind": found.kind.value, "problem": found.problem, "began_at": began_at, "asked_at": now}
    conn.execute(upsert(source_problems, values).values(key=key, **values))


def read_problems(conn: sa.Connection, keys: Iterable[str]) -> dict[str, SourceProblem]:
    """Return the recorded problems, by the key of the source."""
    wanted, found = sorted(set(keys)), {}
    for start in range(0, len(wanted), KEYS_PER_STATEMENT):
        query = sa.select(source_problems).where(source_problems.c.key.in_(wanted[start : start + KEYS_PER_STATEMENT]))
        found.update({row.key: problem_from(row) for row in conn.execute(query)})
    return found


def problem_from(row: sa.Row[Any]) -> SourceProblem:
    return SourceProblem(ProblemKind(row.kind), row.problem, row.began_at, row.asked_at)


def dag_source(dag_id: str) -> str:
    """The key of a DAG among the sources."""
    return f"dag:{dag_id}"


def listened_tables() -> tuple[sa.Subquery, sa.Join]:
    """Return the tables that schedules listen to, and these with their places and problems, where there are some.

    The columns of the first are ``listened_to``, the table's key, and ``since``, when the first of its listeners began.
    """
    name = sa.func.substr(schedule_triggers.c.event_key, len(TABLES) + 1)
    # Grouped by itself: Postgres does not group by a column of JSON, which a place has.
    tables = (
        sa.select(name.label("listened_to"), sa.func.min(schedule_triggers.c.counts_from).label("since"))
        .where(sa.func.substr(schedule_triggers.c.event_key, 1, len(TABLES)) == TABLES)
        .group_by(name)
        .subquery()
    )
    places = tables.outerjoin(table_places, table_places.c.table_key == tables.c.listened_to)
    return tables, places.outerjoin(source_problems, source_problems.c.key == TABLES + tables.c.listened_to)


def read_table_lag(store: Store) -> timedelta:
    """Return how long the most overdue table has been due; zero while all are read in time.

    The cost follows the polled tables, not the schedules. A table that does not exist, or was never read, is left out.
    """
    key = TABLES + table_places.c.table_key
    is_missing = sa.and_(source_problems.c.key == key, source_problems.c.kind == ProblemKind.MISSING.value)
    query = sa.select(sa.func.min(table_places.c.look_at)).where(
        sa.exists().where(schedule_triggers.c.event_key == key), ~sa.exists().where(is_missing)
    )
    oldest = store.scalar(query)
    return timedelta(0) if oldest is None else max(timedelta(0), store.clock() - oldest)
