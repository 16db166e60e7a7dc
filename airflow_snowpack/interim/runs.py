"""The DAG runs that interim tables hang on, and when the collector is to look at them.

    touch(conn, "flights", "scheduled__2026…", now, look_at=now + policy.first_look)    # whatever makes a run have something
    nudge(conn, "flights", "scheduled__2026…", look_at=now)                             # whatever ends in it

The invariant: **a run that has anything is on record, and awake**. Whoever gives it something locks its row until he commits, and
counts its ``touches`` up; the collector puts a run to sleep, or away, only if nobody has touched it since it looked.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.store import storable
from airflow_snowpack.store.hot import Hot
from airflow_snowpack.store.interim_tables import interim_runs
from airflow_snowpack.store.types import UtcDateTime

RUN = interim_runs.c
LOOK_AT = sa.bindparam("b_look", type_=UtcDateTime)
SOONER = sa.or_(RUN.check_at.is_(None), RUN.check_at > LOOK_AT)


def run_key(dag_id: str, run_id: str) -> str:
    """What every table names the run by; it is as long for all."""
    return blake2b(f"{storable(dag_id)}\0{storable(run_id)}".encode(), digest_size=16).hexdigest()


def _touch(insert: Any) -> Any:
    """Make the run, or lock it; look at it at that moment, or when that was to be before."""
    values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in ("run_key", "dag_id", "run_id")}
    first = insert(interim_runs).values(values | {"check_at": LOOK_AT, "looks": 0, "touches": 1})
    return first.on_conflict_do_update(
        index_elements=[RUN.run_key],
        set_={"touches": RUN.touches + 1, "looks": 0, "check_at": sa.case((SOONER, LOOK_AT), else_=RUN.check_at)},
    )


TOUCH = Hot({"postgresql": _touch(postgresql.insert), "sqlite": _touch(sqlite.insert)})


def _nudge(these: sa.ColumnElement[bool]) -> sa.Update:
    """A run that is asleep, or would be looked at later. What is due by then anyway is not written to."""
    return sa.update(interim_runs).where(these, SOONER).values(check_at=LOOK_AT, looks=0, touches=RUN.touches + 1)


NUDGE = Hot(_nudge(RUN.run_key == sa.bindparam("b_run_key")))
NUDGE_ALL = _nudge(RUN.run_key.in_(sa.bindparam("b_run_keys", expanding=True)))


def touch(conn: sa.Connection, dag_id: str, run_id: str, *, look_at: datetime) -> None:
    """The run is about to have something. Call it last: it keeps others of the same run waiting until the commit."""
    values = {"b_run_key": run_key(dag_id, run_id), "b_dag_id": storable(dag_id), "b_run_id": storable(run_id)}
    TOUCH.count(conn, values | {"b_look": look_at})


def nudge(conn: sa.Connection, *run_keys: str, look_at: datetime) -> int:
    """Something ended in these runs; how many of them are looked at sooner than they would have been."""
    if len(run_keys) == 1:
        return NUDGE.count(conn, {"b_run_key": run_keys[0], "b_look": look_at})
    return conn.execute(NUDGE_ALL, {"b_run_keys": sorted(run_keys), "b_look": look_at}).rowcount if run_keys else 0
