"""``airflow snowpack worker``: a process that runs jobs from the queue, such as a pod that KEDA scales.

Before it claims a job, it checks the store, the catalog, Java and Spark's jars. SIGTERM fails the running job, unlocks its table
and ends the process with 1 within about two seconds; between two jobs the process exits with 0.
"""

from __future__ import annotations

import logging
import os
import socket
from functools import partial
from typing import TYPE_CHECKING

from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import log_to_stderr
from airflow_snowpack.cli.values import read_period
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
from airflow_snowpack.hooks.services import sign_of_process
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.iceberg.errors import catalog_label

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from airflow_snowpack.jobs import Engine
    from airflow_snowpack.store import Store

log = logging.getLogger(__name__)


@ends_cleanly
def work(args: Namespace) -> ExitCode | None:
    """``worker``"""
    from airflow_snowpack.jobs import JobWorker
    from airflow_snowpack.store.signs_of_life import Role

    log_to_stderr()
    poll = read_period("--poll", args.poll)
    name = args.worker_id or f"{socket.gethostname()}:{os.getpid()}"
    with SnowpackHook(args.store_conn_id) as hook:
        catalog_hook = IcebergCatalogHook(args.catalog_conn_id)
        catalog, go_on = catalog_hook.config, hook.settings.continue_on_error
        sign = sign_of_process(hook.store(), Role.WORKER, catalog_hook, instance=name)
        worker = JobWorker(
            hook.jobs(),
            spark_engines(args, hook.store()),
            name,
            catalog_id=catalog.catalog_id,
            poll=poll,
            continue_on_error=go_on,
            sign=sign,
        )
        log.info(
            "Worker %s reaches the catalog %s, and takes jobs of no other", name, catalog_label(catalog.name, catalog.catalog_id)
        )
        worker.run_forever(max_jobs=1 if args.once else args.max_jobs, until_idle=args.once)
        log.info("Worker %s leaves", name)
    return None


def spark_engines(args: Namespace, store: Store) -> Callable[[], Engine]:
    """What makes an engine for each job.

    :param store: remembers where the catalog's tables keep their files.
    :raises SparkUnavailable, CatalogUnreachable: this machine could run none.
    """
    from airflow_snowpack.inventory import stored_locations
    from airflow_snowpack.maintenance import SparkEngine

    spark = IcebergSparkHook(args.spark_conn_id, args.catalog_conn_id)
    catalog = IcebergCatalogHook(args.catalog_conn_id).config
    spark.check()
    catalog.load()
    locations = partial(stored_locations, store)
    return lambda: SparkEngine(spark.sessions, catalog.load, locations=locations)
