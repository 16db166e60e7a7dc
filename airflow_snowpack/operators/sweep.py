"""Cleans up behind processes that are gone: the store's sweep as a task, to be scheduled every few minutes.

SweepOperator(task_id="sweep")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_snowpack.operators.base import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class SweepOperator(BaseOperator):
    """Returns jobs whose lease ran out to the queue, fails those without attempts left, and frees tables whose holder is gone.

    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's.

    Returns what it did: ``requeued`` and ``failed`` job ids, ``unlocked`` tables, and ``paused`` while drain mode is on.
    """

    template_fields: Sequence[str] = ("store_conn_id",)

    def __init__(self, *, store_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store_conn_id = store_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Sweep once."""
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.operators.sign_of_life import sign_of_task
        from airflow_snowpack.store.signs_of_life import Role

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            report = hook.jobs().sweep()
            sign_of_task(hook.store(), Role.SWEEPER, context).beat()
        if report.paused:
            self.log.info("Drain mode is on: nothing is swept")
        return {
            "requeued": list(report.requeued),
            "failed": list(report.failed),
            "unlocked": list(report.unlocked),
            "paused": report.paused,
        }
