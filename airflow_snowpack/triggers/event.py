"""The event that a trigger leaves behind.

yield event_of({"job_id": job_id, "status": "completed"})
"""

from __future__ import annotations

from typing import Any

from airflow.triggers.base import TriggerEvent


def event_of(payload: dict[str, Any]) -> TriggerEvent:
    """An event with this payload, which Airflow keeps as JSON."""
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]  # Airflow's is untyped
