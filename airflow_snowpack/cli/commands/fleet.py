"""``airflow snowpack fleet``: passes over all tables; list, show and run."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from airflow_snowpack.cli.context import ends_cleanly, open_context
from airflow_snowpack.cli.output import DATA, log_to_stderr, print_data, print_list, print_page
from airflow_snowpack.cli.values import find_pass
from airflow_snowpack.wire.fleet import ENTRIES, PASSES, PassShape

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.exit_code import ExitCode
    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.maintenance.fleet import Pass
    from airflow_snowpack.maintenance.fleet.fleet import Fleet


@ends_cleanly
def list_passes(args: Namespace) -> ExitCode | None:
    """``fleet list``"""
    with open_context(args) as here:
        page = here.installation.fleet_passes.list(limit=args.limit, cursor=args.cursor)
        print_page(args, PASSES, page.items, page.next, here.now)
    return None


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``fleet show``"""
    from airflow_snowpack.maintenance.fleet.report import PassReport

    with open_context(args) as here:
        passes = here.installation.fleet_passes
        found = find_pass(passes, args.fleet_pass)
        entries = passes.entries(found.pass_id)
        if args.output in DATA:
            body = PassShape.encode(found)
            print_data(args.output, body | {"tables": [ENTRIES.body(entry) for entry in entries]})
            return None
        if args.output != "plain":
            print("\n".join(PassReport.of(found, entries, here.now).lines()))
        if entries:
            print_list(args.output, ENTRIES, entries, here.now)
    return None


@ends_cleanly
def run(args: Namespace) -> ExitCode | None:
    """``fleet run``"""
    from airflow_snowpack.hooks.fleet import open_fleet
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.maintenance.fleet import Budget
    from airflow_snowpack.store import new_id

    log_to_stderr()
    limits = {"gb_hours": args.gb_hours, "bytes": args.bytes, "tables": args.tables, "time": args.time}
    budget, worker_id = Budget.parse(limits), f"{socket.gethostname()}:{os.getpid()}"
    with SnowpackHook(args.store_conn_id) as hook, open_fleet(hook, IcebergCatalogHook(args.catalog_conn_id)) as fleet:
        # An owner of its own: it neither resumes nor ends the pass of another call.
        planned = fleet.start(f"command-{new_id()}/run", budget, workers=1, holder=worker_id)
        if fleet.workers_needed(planned):
            _drain(args, hook, fleet, planned, worker_id)
        report = fleet.report(planned)
        if args.output in DATA:
            print_data(args.output, report.to_json())
        else:
            print("\n".join(report.lines()))
    return None


def _drain(args: Namespace, hook: SnowpackHook, fleet: Fleet, planned: Pass, worker_id: str) -> None:
    """Maintain the tables in this process. A signal fails the running job and ends the process, as it does a worker's."""
    from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
    from airflow_snowpack.jobs import JobWorker
    from airflow_snowpack.jobs.worker import ShutdownWatcher
    from airflow_snowpack.worker.process import engines

    spark, drain = IcebergSparkHook(args.spark_conn_id, args.catalog_conn_id).spark, fleet.drain(planned, worker_id)
    worker = JobWorker(
        hook.jobs(),
        engines(hook.installation, spark),
        worker_id,
        catalog_id=fleet.catalog_id,
        continue_on_error=hook.settings.continue_on_error,
        claim_next=drain.claim_next,
    )
    with ShutdownWatcher(on_signal=lambda name: worker.abandon(f"Worker received {name}")):
        drain.run(worker)
