"""The tables that enabled schedules listen to, and how far behind their reading is.

tables, known = listened_tables()
sa.select(tables.c.listened_to, table_places.c.read_at).select_from(known)
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.source_problems import ProblemKind
from airflow_snowpack.scheduling.triggers.trigger import table_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import schedule_triggers, source_problems, table_places

PREFIX = table_key(TableName("c", "d", "t")).removesuffix("c.d.t")


def listened_tables() -> tuple[sa.Subquery, sa.Join]:
    """Return the tables that schedules listen to, and these with their places and problems, where there are some.

    The columns of the first are ``listened_to``, the table's key, and ``since``, when the first of its listeners began.
    """
    name = sa.func.substr(schedule_triggers.c.event_key, len(PREFIX) + 1)
    # Grouped by itself: Postgres does not group by a column of JSON, which a place has.
    tables = (
        sa.select(name.label("listened_to"), sa.func.min(schedule_triggers.c.counts_from).label("since"))
        .where(sa.func.substr(schedule_triggers.c.event_key, 1, len(PREFIX)) == PREFIX)
        .group_by(name)
        .subquery()
    )
    places = tables.outerjoin(table_places, table_places.c.table_key == tables.c.listened_to)
    return tables, places.outerjoin(source_problems, source_problems.c.key == PREFIX + tables.c.listened_to)


def read_table_lag(store: Store) -> timedelta:
    """Return how long the most overdue of the tables has been due to be read; zero while all are read in time.

    Costs what is polled, however many schedules listen. A table that does not exist, or was never read, is left out.
    """
    key = PREFIX + table_places.c.table_key
    is_missing = sa.and_(source_problems.c.key == key, source_problems.c.kind == ProblemKind.MISSING.value)
    query = sa.select(sa.func.min(table_places.c.look_at)).where(
        sa.exists().where(schedule_triggers.c.event_key == key), ~sa.exists().where(is_missing)
    )
    oldest = store.read(lambda conn: conn.execute(query).scalar())
    return timedelta(0) if oldest is None else max(timedelta(0), store.clock() - oldest)
