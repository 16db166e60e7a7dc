"""DBOS: every job is a durable workflow of a queue. It claims as many as a worker may run at once; ten here."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from benchmarks.harness import SPAWN, Contender, Meter, Signals

QUEUE = "bench"
AT_ONCE = 10
POLLING_S = 0.02
WORKFLOW: Any = {"queue_name": QUEUE, "workflow_name": "noop", "app_version": "1"}


def _configure(url: str) -> Any:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    from dbos import DBOS

    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "application_version": "1",
            "log_level": "ERROR",
            "executor_id": f"executor-{os.getpid()}",
            "sys_db_pool_size": 20,
        }
    )

    @DBOS.workflow(name="noop")
    def noop(i: int) -> None: ...

    return DBOS


def _install(signals: Signals, url: str) -> None:
    dbos = _configure(url)
    dbos.listen_queues([])
    dbos.launch()
    dbos.register_queue(QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=POLLING_S)
    signals.ready.set()
    signals.stop.wait()
    os._exit(0)


def create(url: str) -> None:
    # In a process of its own: DBOS is one per process and keeps its threads.
    signals = Signals(SPAWN.Event(), SPAWN.Event(), SPAWN.Event())
    process = SPAWN.Process(target=_install, args=(signals, url), daemon=True)
    process.start()
    made = signals.ready.wait(90)
    signals.stop.set()
    process.join(10)
    if not made:
        raise RuntimeError("DBOS did not make its tables within 90 s; see its output above.")


def fill(url: str, n: int) -> None:
    import sqlalchemy as sa
    from dbos import DBOSClient

    client = DBOSClient(system_database_url=url)
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for i in range(n):
            client.enqueue_in_transaction(connection, WORKFLOW, i)
    engine.dispose()
    client.destroy()


def work(signals: Signals, url: str) -> None:
    dbos = _configure(url)
    signals.ready.set()
    signals.go.wait()
    dbos.launch()
    dbos.register_queue(QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=POLLING_S)
    signals.stop.wait()
    os._exit(0)


def enqueue(url: str, n: int, meter: Meter) -> None:
    from dbos import DBOSClient

    client = DBOSClient(system_database_url=url)
    for i in range(20):
        client.enqueue(WORKFLOW, i)
    with meter:
        for i in range(n):
            client.enqueue(WORKFLOW, i)
    client.destroy()


DBOS = Contender(
    name="dbos",
    create=create,
    fill=fill,
    work=work,
    enqueue=enqueue,
    unfinished="SELECT 1 FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING') LIMIT 1",
    share=0.2,
)
