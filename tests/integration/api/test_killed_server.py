"""A server that is killed at any point leaves nothing half done."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from api_process import TOKEN
from bounded import PATIENCE_S, Beside, started
from effort import rounds

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.opening import open_engine

pytestmark = pytest.mark.both_in_soak

KILLS = rounds(6, soak=30)
CLIENTS = 4
LONGEST_S = 360.0
SUPPORT = "tests/support"

# One statement, so that it sees one moment of a store that others write to.
HALF_DONE = """
    SELECT 'a lock without its job', holder FROM table_locks
        WHERE holder NOT IN (SELECT job_id FROM jobs WHERE status IN ('pending', 'running') AND deleted_at IS NULL)
    UNION ALL SELECT 'a job without its queue row', job_id FROM jobs
        WHERE status IN ('pending', 'running') AND job_id NOT IN (SELECT job_id FROM job_queue)
    UNION ALL SELECT 'a job without its lock', job_id FROM jobs
        WHERE status IN ('pending', 'running') AND job_id NOT IN (SELECT holder FROM table_locks)
    UNION ALL SELECT 'a queue row without its job', job_id FROM job_queue
        WHERE job_id NOT IN (SELECT job_id FROM jobs WHERE status IN ('pending', 'running') AND deleted_at IS NULL)
    UNION ALL SELECT 'a job without its audit entry', job_id FROM jobs
        WHERE job_id NOT IN (SELECT subject FROM audit_trail WHERE change = 'submit')
    UNION ALL SELECT 'a cancelled job without its audit entry', job_id FROM jobs
        WHERE status = 'cancelled' AND job_id NOT IN (SELECT subject FROM audit_trail WHERE change = 'cancel')
    UNION ALL SELECT 'a deleted job without its audit entry', job_id FROM jobs
        WHERE deleted_at IS NOT NULL AND job_id NOT IN (SELECT subject FROM audit_trail WHERE change = 'delete')
    UNION ALL SELECT 'a key without its job', job_id FROM idempotency_keys
        WHERE job_id NOT IN (SELECT job_id FROM jobs)
"""


class Clients:
    """Threads that submit, cancel and delete, and remember what they were promised."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._stop = threading.Event()
        self._threads: list[Beside] = []
        self.accepted: list[str] = []
        self.unexpected: list[str] = []

    def __enter__(self) -> Clients:
        self._threads = [Beside(partial(self._run, number)) for number in range(CLIENTS)]
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        draw = random.Random(number)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=self._url, headers=headers, timeout=PATIENCE_S) as client:
            while not self._stop.is_set():
                with contextlib.suppress(httpx.TransportError):  # it was killed: what it was about to answer is not known
                    self._one_life(client, draw)

    def _one_life(self, client: httpx.Client, draw: random.Random) -> None:
        key = {"Idempotency-Key": f"{draw.getrandbits(64):x}"} if draw.random() < 0.3 else {}
        table = draw.randrange(40)
        answer = client.post(f"/tables/plain/t{table:02}/maintenance", json={"actions": ["expire_snapshots"]}, headers=key)
        if answer.status_code == 202:
            job_id = answer.json()["job_id"]
            self.accepted.append(job_id)
        elif answer.status_code == 409:
            job_id = answer.json()["holder"]
        elif answer.status_code == 503:  # a machine so busy that the answer was not there in time
            return
        else:
            self.unexpected.append(answer.text)
            return
        if draw.random() < 0.8:
            self._expect(client.post(f"/jobs/{job_id}/cancel"), {200, 404, 409, 503})
            if draw.random() < 0.5:
                self._expect(client.delete(f"/jobs/{job_id}"), {204, 404, 409, 503})

    def _expect(self, answer: httpx.Response, codes: set[int]) -> None:
        if answer.status_code not in codes:
            self.unexpected.append(answer.text)


@pytest.fixture
def server(store_url: str, lake_folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that comes back whenever its child is killed."""
    with Store(open_engine(store_url)) as store:
        upgrade_schema(store)
        Inventory(store, "lake", CatalogConfig.embedded(lake_folder).load).refresh()
    command = [sys.executable, f"{SUPPORT}/forking_api.py", store_url, str(lake_folder)]
    with started(command, patience_s=LONGEST_S, stdout=subprocess.PIPE) as process:
        yield process


def test_kills_leave_nothing_half_done(
    server: subprocess.Popen[str], store_url: str, record_property: Callable[[str, object], None]
) -> None:
    assert server.stdout is not None
    port = int(server.stdout.readline())
    draw = random.Random(7)
    with Store(open_engine(store_url)) as store:
        with Clients(port) as clients:
            for _ in range(KILLS):
                child, before = int(server.stdout.readline()), len(clients.accepted)
                _wait_for(clients, before + 1)
                time.sleep(draw.uniform(0.0, 0.15))
                os.kill(child, signal.SIGKILL)
                assert store.read(lambda conn: conn.exec_driver_sql(HALF_DONE).all()) == []
        kept = store.read(lambda conn: set(conn.execute(sa.text("SELECT job_id FROM jobs")).scalars()))
    assert clients.unexpected == []
    assert set(clients.accepted) <= kept, "what was accepted is there"
    assert len(clients.accepted) >= KILLS
    record_property("faults", KILLS)


def _wait_for(clients: Clients, accepted: int) -> None:
    """Until a new child has accepted something, so that each of them is killed at its work."""
    give_up = time.monotonic() + PATIENCE_S
    while len(clients.accepted) < accepted:
        if time.monotonic() > give_up:
            raise AssertionError(f"The new server accepts nothing: {clients.unexpected[-3:]}")
        time.sleep(0.005)
