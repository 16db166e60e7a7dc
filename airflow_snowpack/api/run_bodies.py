"""Registered runs as JSON bodies, for the API and the command line alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api.bodies import Body, moment

if TYPE_CHECKING:
    from airflow_snowpack.scheduling import StoredRun


def registered_run_body(stored: StoredRun) -> Body:
    """A registered run; its definition can be changed and sent back."""
    return {
        "name": stored.name,
        "enabled": stored.enabled,
        "created_at": moment(stored.created_at),
        "updated_at": moment(stored.updated_at),
        "updated_by": stored.updated_by,
        "next_run_at": moment(stored.next_run_at),
        "definition": {
            "name": stored.name,
            "dag_id": stored.dag_id,
            "conf": dict(stored.conf),
            "cron": stored.cron,
            "tz": stored.tz,
            "preservation": None if stored.preservation is None else stored.preservation.value,
            "enabled": stored.enabled,
            "description": stored.description,
        },
    }
