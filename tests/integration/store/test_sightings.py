"""Which processes opened a store, one row for each role and host."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.store import open_store
from airflow_snowpack.store.sightings import note_process, processes

if TYPE_CHECKING:
    import pytest

NOW = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)


def test_the_newest_note_of_a_role_and_host_counts_and_last_weeks_are_forgotten(store_url: str) -> None:
    now = [NOW]
    with open_store(store_url, clock=lambda: now[0]) as store:
        identity = store.identity
        note_process(store, "worker", "pod-1", {"catalog_id": "old"})
        note_process(store, "worker", "pod-1", {"catalog_id": "a"})
        now[0] += timedelta(days=6)
        note_process(store, "api", "web_%", {"catalog_id": "b"})
        assert [(each.role, each.host, each.detail["catalog_id"]) for each in processes(store)] == [
            ("api", "web_%", "b"),
            ("worker", "pod-1", "a"),
        ]

        now[0] += timedelta(days=2)
        assert [each.host for each in processes(store)] == ["web_%"]
        note_process(store, "worker", "pod-2", {})
        assert [each.host for each in processes(store)] == ["web_%", "pod-2"]
        assert store.identity == identity, "the other facts of the store stay"


def test_a_store_that_does_not_answer_keeps_no_process_from_its_work(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(store_url) as store:
        store.transact(lambda conn: conn.exec_driver_sql("ALTER TABLE store_facts RENAME TO elsewhere"))
        note_process(store, "worker", "pod-1", {})

    assert "process_not_noted" in caplog.text
