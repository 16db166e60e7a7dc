"""The life of a worker process: check this machine, then claim and run jobs until a signal arrives or the work is done.

The store, the catalog, Java and Spark's jars are checked before the first claim, so a machine that cannot run jobs claims none.
One Spark session serves all jobs of the process.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import joined_facts
from airflow_snowpack.iceberg.errors import catalog_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta
    from types import FrameType

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.connections.spark import Spark
    from airflow_snowpack.installation import Installation
    from airflow_snowpack.jobs import Engine

log = logging.getLogger(__name__)


def check_poll(poll: timedelta) -> timedelta:
    """:raises ValueError: it is zero, with which a worker would poll an empty queue without a pause."""
    if not poll:
        raise ValueError("must be longer than zero, such as 5s")
    return poll


@contextmanager
def exits_on_signal() -> Iterator[None]:
    """Exit with 0 on SIGTERM or SIGINT while no job runs. Enter it in the main thread.

    The first process of a container ignores SIGTERM by default: without this, a worker that is stopped during start-up would
    still claim a job and be killed in the middle of it.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        log.warning("shutdown_requested: %s", signal.Signals(number).name)
        sys.exit(0)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_worker(
    installation: Installation,
    *sparks: Spark,
    name: str | None = None,
    poll: timedelta,
    max_jobs: int | None = None,
    until_idle: bool = False,
) -> None:
    """Run jobs until SIGTERM or SIGINT. Call it in the main thread.

    On a signal, the running job fails, its table is unlocked and the process exits with 1 in two seconds; an idle one returns.

    :param sparks: each runs the jobs of its catalog; jobs of other catalogs are left to other workers.
    :param name: the worker's name in its claims; ``None`` for host and process id.
    :param poll: the wait between two claims while the queue is empty.
    :param max_jobs: return after this many jobs, successful or not.
    :param until_idle: return as soon as no job can be claimed.
    :raises SparkUnavailable, CatalogUnreachable, UnusableExtra: this machine cannot run jobs.
    """
    from airflow_snowpack.jobs import JobWorker
    from airflow_snowpack.store.signs_of_life import Role, SignOfLife

    name = name or f"{socket.gethostname()}:{os.getpid()}"
    catalogs = [spark.catalog for spark in sparks]
    sign = SignOfLife(installation.store, Role.WORKER, name, detail=joined_facts(catalogs))
    sign.beat()
    first, *others = ((spark.catalog.catalog_id, engines(installation, spark, at_once=len(sparks) == 1)) for spark in sparks)
    worker = JobWorker(
        installation.jobs,
        first[1],
        name,
        catalog_id=first[0],
        more_catalogs=dict(others),
        poll=poll,
        continue_on_error=sparks[0].settings.continue_on_error,
        sign=sign,
    )
    reached = ", ".join(catalog_label(catalog.name, catalog.catalog_id) for catalog in catalogs)
    word = "catalog" if len(catalogs) == 1 else "catalogs"
    log.info("Worker %s reaches the %s %s, and takes jobs of no other", name, word, reached)
    worker.run_forever(max_jobs=max_jobs, until_idle=until_idle)
    log.info("Worker %s leaves", name)


def engines(installation: Installation, spark: Spark, *, at_once: bool = True) -> Callable[[], Engine]:
    """Return a function that makes an engine for each job.

    Each job connects to the catalog again, because tokens expire and addresses change. The previous connection is closed first.

    :param at_once: connect now, and otherwise before the first engine, so that jobs of other catalogs need not wait for this one.
    :raises SparkUnavailable, CatalogUnreachable: this machine cannot run jobs.
    """
    from airflow_snowpack.inventory import stored_footprints
    from airflow_snowpack.maintenance import SparkEngine

    connections = ExitStack()
    footprints, connected = partial(stored_footprints, installation.store), False

    def connect() -> Catalog:
        nonlocal connected
        catalog = connections.enter_context(closing(spark.catalog.load()))
        connected = True
        return catalog

    def make() -> Engine:
        connections.close()
        if not connected:
            connect()
        return SparkEngine(spark.sessions, connect, footprints=footprints, removals=installation.removals)

    spark.check()
    if at_once:
        connect()
    return make
