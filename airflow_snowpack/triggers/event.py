"""The event that a trigger leaves behind.

yield event_of({"job_id": job_id, "status": "completed"})
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.triggers.base import TriggerEvent

SETTLED = timedelta(seconds=10)
"""How long a trigger that is made to fire often waits at least. Airflow hears from its executor that a task has left for the
triggerer some seconds after it has (six were seen), and takes that for the end of whatever runs under the task's name by then:
a task that was woken before is failed, and tried again."""


def event_of(payload: dict[str, Any]) -> TriggerEvent:
    """An event with this payload, which Airflow keeps as JSON."""
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]  # Airflow's is untyped
