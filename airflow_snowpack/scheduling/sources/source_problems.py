"""What is wrong with the tables and DAGs that schedules listen to, as the poller and the scheduler find it out.

    write_problem(conn, store, key, Found(ProblemKind.MISSING, "…"), known)     # known: what read_problems returned before
    read_problems(conn, keys)

The invariant: a source without a row is fine, or has not been asked yet. A row is written when the state of the source changes,
and once a minute while the problem lasts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.errors import TableNotFound
from airflow_snowpack.scheduling.triggers.trigger import TABLES
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import schedule_triggers, source_problems, table_places

if TYPE_CHECKING:
    from pyiceberg.table import Table

WRITE_EVERY = timedelta(minutes=1)
NO_WIDER_THAN = 500


class ProblemKind(StrEnum):
    """What is wrong with a source: it does not exist, it cannot be read, or it has no partitions."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNPARTITIONED = "unpartitioned"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found out about a source.

    :param problem: the error, for people; empty where the kind says it all.
    """

    kind: ProblemKind
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """A problem on record.

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
    """Return what an error says about the table that was to be read."""
    if isinstance(error, TableNotFound):
        return Found(ProblemKind.MISSING, str(error))
    if isinstance(error, SnowpackError):
        return Found(ProblemKind.UNREADABLE, str(error))
    first_line = (str(error).splitlines() or [""])[0]  # drivers add the statement and a link below
    return Found(ProblemKind.UNREADABLE, f"{type(error).__name__}: {first_line:.300}")


def is_news(found: Found | None, known: SourceProblem | None, now: datetime) -> bool:
    """Whether what was found out is to be written."""
    if found is None or known is None:
        return (found is None) != (known is None)
    if (found.kind, found.problem) != (known.kind, known.problem):
        return True
    return found.kind is not ProblemKind.UNPARTITIONED and now - known.asked_at >= WRITE_EVERY


def write_problem(conn: sa.Connection, store: Store, key: str, found: Found | None, known: SourceProblem | None) -> None:
    """Record what was found out about a source, if that is news.

    :param key: the key of its events for a table, :func:`dag_source` for a DAG.
    :param found: what is wrong; ``None`` when nothing is.
    :param known: what is on record.
    """
    now = store.clock()
    if not is_news(found, known, now):
        return
    if found is None:
        conn.execute(sa.delete(source_problems).where(source_problems.c.key == key))
        return
    began_at = known.began_at if known is not None and known.kind is found.kind else now
    insert = postgresql.insert if store.is_postgres else sqlite.insert
    values = {"kind": found.kind.value, "problem": found.problem, "began_at": began_at, "asked_at": now}
    statement = insert(source_problems).values(key=key, **values)
    conn.execute(statement.on_conflict_do_update(index_elements=["key"], set_=values))


def read_problems(conn: sa.Connection, keys: Iterable[str]) -> dict[str, SourceProblem]:
    """Return the problems on record, by the key of the source."""
    wanted, found = sorted(set(keys)), {}
    for start in range(0, len(wanted), NO_WIDER_THAN):
        query = sa.select(source_problems).where(source_problems.c.key.in_(wanted[start : start + NO_WIDER_THAN]))
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
    """Return how long the most overdue of the tables has been due to be read; zero while all are read in time.

    Costs what is polled, however many schedules listen. A table that does not exist, or was never read, is left out.
    """
    key = TABLES + table_places.c.table_key
    is_missing = sa.and_(source_problems.c.key == key, source_problems.c.kind == ProblemKind.MISSING.value)
    query = sa.select(sa.func.min(table_places.c.look_at)).where(
        sa.exists().where(schedule_triggers.c.event_key == key), ~sa.exists().where(is_missing)
    )
    oldest = store.read(lambda conn: conn.execute(query).scalar())
    return timedelta(0) if oldest is None else max(timedelta(0), store.clock() - oldest)
