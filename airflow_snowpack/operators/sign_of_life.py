"""The sign of life of a task that does the work of a background role.

sign_of_task(store, Role.SWEEPER, context).beat()
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_snowpack.store import Store
    from airflow_snowpack.store.signs_of_life import Role, SignOfLife

UNKNOWN_PERIOD = timedelta(minutes=5)
"""The period of a DAG without a cron or an interval."""


def sign_of_task(store: Store, role: Role, context: Context, period: timedelta | None = None) -> SignOfLife:
    """Return the sign of life of this task, the same in each run of its DAG.

    :param period: the time between two signs; ``None`` for the schedule of its DAG.
    """
    from airflow_snowpack.store.signs_of_life import SignOfLife

    instance = context["ti"]
    if period is None:
        period = period_of(getattr(context.get("dag"), "timetable", None), store.clock())
    return SignOfLife(store, role, f"{instance.dag_id}.{instance.task_id}", period=period, detail={"dag": instance.dag_id})


def period_of(timetable: Any, now: datetime) -> timedelta:
    """Return the longest time between two of the next runs."""
    from airflow_snowpack.scheduling.cron import next_tick

    if isinstance(delta := getattr(timetable, "delta", None), timedelta):
        return delta
    expression, zone = getattr(timetable, "expression", None), getattr(timetable, "timezone", None)
    if not isinstance(expression, str):
        return UNKNOWN_PERIOD
    try:
        first = next_tick(expression, str(getattr(zone, "name", zone)), now)
        second = next_tick(expression, str(getattr(zone, "name", zone)), first)
    except Exception:  # noqa: BLE001 - Airflow knows expressions and zones that Snowpack does not; the sign is sent all the same
        return UNKNOWN_PERIOD
    return max(first - now, second - first)
