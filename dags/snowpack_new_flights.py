"""Process new data of a table, from any writer: a DAG that is scheduled on the arrivals of the table.

The watcher emits an event for each snapshot that added data, never for maintenance, and loses none. A run may have several
events, and an event may come twice with the same `snapshot_id`.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from airflow_snowpack.assets import iceberg_asset

flights = iceberg_asset("demo.flights", watched=True)

with DAG(
    dag_id="snowpack_new_flights",
    schedule=flights,
    catchup=False,
    doc_md=__doc__,
    tags=["snowpack"],
    is_paused_upon_creation=True,
):

    @task
    def count_new(triggering_asset_events: Any = None) -> dict[str, int]:
        """Return how much arrived, counting each snapshot once."""
        payloads = [event.extra["payload"] for event in triggering_asset_events[flights] if "payload" in event.extra]
        once = {payload["snapshot_id"]: payload for payload in payloads}
        return {what: sum(each[f"added_{what}"] for each in once.values()) for what in ("files", "records", "bytes")}

    count_new()
