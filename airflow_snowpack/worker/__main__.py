"""``snowpack-worker``: a worker without Airflow, such as in a pod.

    AIRFLOW__SNOWPACK__STORE_CONN_ID=store AIRFLOW_CONN_STORE=postgres://… snowpack-worker --once

It is ``airflow snowpack worker`` with settings and connections from the environment or a file.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.connections import catalog as of_catalog, spark as of_spark, store as of_store
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.exit_code import ExitCode, code_of
from airflow_snowpack.provider_info import SECTION
from airflow_snowpack.settings import Settings
from airflow_snowpack.worker.environment import Environment
from airflow_snowpack.worker.process import check_poll, exits_on_signal, run_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import URL

    from airflow_snowpack.connections.connection import Connection
    from airflow_snowpack.installation import Installation


class ConnectionNotSet(SnowpackError, kind=Kind.MISCONFIGURED):
    """A worker without Airflow needs a connection."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"[{SECTION}] {key} is not set. A worker without Airflow uses no embedded file, which other processes may not share: "
            f"set AIRFLOW__{SECTION.upper()}__{key.upper()} to the id of a connection, and the connection as AIRFLOW_CONN_<ID>."
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker and return the exit code, one of those in ``docs/cli.md``."""
    args = parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("airflow_snowpack").setLevel(logging.INFO)  # PyIceberg writes a line for each manifest list
    try:
        with exits_on_signal():
            environment = Environment(os.environ, args.config)
            settings = Settings.load(environment)
            sparks = open_sparks(settings, environment, args.catalog_conn_id)
            with closing(open_installation(settings, environment)) as installation:
                run_worker(
                    installation,
                    *sparks,
                    name=args.worker_id,
                    poll=args.poll,
                    max_jobs=1 if args.once else args.max_jobs,
                    until_idle=args.once,
                )
    except SnowpackError as problem:
        print(problem, file=sys.stderr)
        return code_of(problem)
    return ExitCode.DONE


def open_installation(settings: Settings, environment: Environment) -> Installation:
    """:raises SnowpackError: the store's connection is missing or invalid, it does not answer, or its schema does not fit."""
    from airflow_snowpack.installation import Installation
    from airflow_snowpack.store import open_store

    def url() -> URL:
        now = environment.read_again()  # a mounted secret may have been replaced
        return of_store.store_url(_connection("store_conn_id", settings.store_conn_id, now, of_store.PURPOSE))

    return Installation(
        open_store(url(), of_a_task=True, renewed=url),
        settings.policy,
        settings.catalog_name,
        settings.interim_namespace,
        orphans=of_spark.SparkOrphans(environment.connection),
    )


def open_sparks(settings: Settings, environment: Environment, conn_ids: Sequence[str] | None = None) -> list[of_spark.Spark]:
    """Describe the catalogs and where Spark runs, without contacting either.

    :param conn_ids: the connections of the catalogs; ``None`` for those of ``catalog_conn_id``, separated by commas.
    :raises SnowpackError: a connection is missing or invalid.
    """
    ids = conn_ids or [conn_id.strip() for conn_id in (settings.catalog_conn_id or "").split(",")]
    connections = [_connection("catalog_conn_id", conn_id or None, environment, of_catalog.PURPOSE) for conn_id in ids]
    catalogs = [of_catalog.catalog_config(connection, settings.catalog_name) for connection in connections]
    server = None if settings.spark_conn_id is None else environment.connection(settings.spark_conn_id, of_spark.PURPOSE)
    return of_spark.sparks_of(settings, catalogs, server)


def _connection(key: str, conn_id: str | None, environment: Environment, purpose: str) -> Connection:
    if conn_id is None:
        raise ConnectionNotSet(key)
    return environment.connection(conn_id, purpose)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("snowpack-worker", description="Run jobs from the queue until SIGTERM, without Airflow.")
    parser.add_argument("--config", type=Path, help="a file in the format of airflow.cfg, with [snowpack] and [connections]")
    parser.add_argument("--once", action="store_true", help="run one job, if one waits, and exit")
    parser.add_argument("--max-jobs", type=_count, metavar="N", help="exit after N jobs")
    pause = "how long to wait when the queue is empty (default: 5s)"
    parser.add_argument("--poll", type=_period, default=timedelta(seconds=5), metavar="PERIOD", help=pause)
    conn_id = "the connection of a catalog, repeatable (default: those of catalog_conn_id, separated by commas)"
    parser.add_argument("--catalog-conn-id", action="append", metavar="CONN_ID", help=conn_id)
    parser.add_argument("--worker-id", metavar="NAME", help="the worker's name in its claims (default: host:process)")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def _period(text: str) -> timedelta:
    try:
        return check_poll(parse_duration(text))
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


if __name__ == "__main__":
    sys.exit(main())
