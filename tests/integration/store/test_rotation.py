"""The password of the store's role is changed while processes run: each reads the Airflow connection again, and continues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from postgres_server import PostgresServer, running_server
from sqlalchemy import URL

from airflow_snowpack import hooks, triggers
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.settings import Settings
from airflow_snowpack.store import Store, StoreUnreachable, open_store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.worker.__main__ import open_installation
from airflow_snowpack.worker.environment import Environment

TABLE = TableName("lake", "db", "t")
TABLES = sa.text("SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'")


class Rotated:
    """A store whose role ``keeper`` has a password; the superuser needs none.

    :ivar url: the address with the current password.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._admin = psycopg.connect(
            server.url.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
        )
        (file,) = self._admin.execute("SHOW hba_file").fetchone() or ()
        rules = Path(file)
        rules.write_text("host all keeper 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        self._admin.execute("SELECT pg_reload_conf()")
        self._admin.execute("CREATE ROLE keeper LOGIN PASSWORD 'first'")
        self._admin.execute("CREATE DATABASE kept OWNER keeper")
        self.url = server.url.set(username="keeper", password="first", database="kept")

    def set_password(self, password: str) -> URL:
        """Change the password, and end the sessions: they would go on with the old one."""
        self._admin.execute(f"ALTER ROLE keeper PASSWORD '{password}'")
        self._admin.execute("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'keeper'")
        self.url = self.url.set(password=password)
        return self.url

    @property
    def uri(self) -> str:
        """The Airflow connection."""
        return f"postgres://keeper:{self.url.password}@{self.url.host}:{self.url.port}/{self.url.database}"

    def close(self) -> None:
        self._admin.close()


@pytest.fixture
def rotated() -> Iterator[Rotated]:
    with running_server() as server:
        role = Rotated(server)
        with Store(open_engine(role.url)) as store:
            upgrade_schema(store)
        yield role
        role.close()


def test_a_store_reads_its_address_again_when_its_password_is_refused(rotated: Rotated) -> None:
    read: list[URL] = []

    def renewed() -> URL:
        read.append(rotated.url)
        return rotated.url

    with open_store(rotated.url, renewed=renewed) as store:
        assert read == []
        rotated.set_password("second")
        assert store.scalar(TABLES) > 10
        rotated.set_password("third")
        assert store.scalar(TABLES) > 10
        assert [url.password for url in read] == ["second", "third"]


def test_a_password_that_is_wrong_everywhere_is_an_outage_and_is_not_shown(rotated: Rotated) -> None:
    old = rotated.url
    with open_store(old, renewed=lambda: old) as store:
        rotated.set_password("second")
        with pytest.raises(StoreUnreachable) as caught:
            store.scalar(TABLES)
    assert "first" not in str(caught.value)


def test_a_running_job_of_a_task_ends_once_after_the_password_of_its_connection_was_changed(
    rotated: Rotated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STORE", rotated.uri)
    with hooks.SnowpackHook("store") as hook:
        hook.jobs().submit(TABLE, ["expire_snapshots"])
        claim = hook.jobs().claim("w")
        assert claim is not None
        rotated.set_password("second")
        monkeypatch.setenv("AIRFLOW_CONN_STORE", rotated.uri)

        assert hook.jobs().finish(claim, JobStatus.COMPLETED, [])
        assert not hook.jobs().finish(claim, JobStatus.FAILED, [])
        assert [job.status for job in hook.jobs().list()] == [JobStatus.COMPLETED]


def test_a_worker_without_airflow_reads_its_file_again(rotated: Rotated, tmp_path: Path) -> None:
    file = tmp_path / "worker.cfg"
    text = "[snowpack]\nstore_conn_id = store\n[connections]\nstore = {}\n"
    file.write_text(text.format(rotated.uri))
    environment = Environment({}, file)
    installation = open_installation(Settings.load(environment), environment)
    rotated.set_password("second")
    file.write_text(text.format(rotated.uri))

    assert installation.jobs.claim("w") is None
    installation.close()


def test_a_waiting_trigger_takes_the_new_password_without_being_made_again(
    rotated: Rotated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STORE", rotated.uri)
    with hooks.SnowpackHook("store") as hook:
        job = hook.jobs().submit(TABLE, ["expire_snapshots"])
        trigger = triggers.MaintenanceJobTrigger(job.job_id, "store", poll_seconds=0.1)

        async def wait() -> dict[str, Any]:
            events = trigger.run()
            waiting = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            await asyncio.to_thread(rotated.set_password, "second")
            monkeypatch.setenv("AIRFLOW_CONN_STORE", rotated.uri)
            claim = await asyncio.to_thread(hook.jobs().claim, "w")
            assert claim is not None
            await asyncio.to_thread(hook.jobs().finish, claim, JobStatus.COMPLETED, [])
            event = await asyncio.wait_for(waiting, PATIENCE_S)
            return dict(event.payload)

        assert asyncio.run(wait())["status"] == "completed"
