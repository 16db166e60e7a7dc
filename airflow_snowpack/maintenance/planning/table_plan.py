"""Decide what a table needs, from its stored health and its policy alone: no I/O, no Spark, about 0.3 ms a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.jobs.action_history import ActionHistory

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from airflow_snowpack.maintenance.planning.model import TablePlan, Writers

NO_HISTORY = ActionHistory()


def plan_table(
    health: Any,
    policy: Any,
    *,
    now: datetime,
    history: ActionHistory = NO_HISTORY,
    writers: Writers | None = None,
) -> TablePlan:
    """Return a decision for each action of the policy.

    :param health: the stored :class:`~airflow_snowpack.iceberg.health.TableHealth` of the table.
    :param policy: its :class:`~airflow_snowpack.maintenance.policies.TablePolicy`.
    :param now: the moment that cadences, deadlines, windows and ages count from.
    :param history: when each action last ran, and how far its outcomes were from its estimates.
    :param writers: what is known of the DAGs that write to the table.
    """
    raise NotImplementedError
