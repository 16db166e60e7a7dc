"""``airflow snowpack fleet``: passes over all tables; list, show and run."""

import logging
import os
import socket
from argparse import Namespace
from contextlib import ExitStack
from functools import partial

from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import DATA, log_to_stderr, print_data, print_list, print_page
from airflow_snowpack.cli.values import find
from airflow_snowpack.hooks.fleet import open_fleet
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.hooks.table_dags import read_dags_of_tables
from airflow_snowpack.jobs import JobWorker
from airflow_snowpack.jobs.worker import ShutdownWatcher
from airflow_snowpack.maintenance.fleet import Budget, Pass
from airflow_snowpack.maintenance.fleet.fleet import COMMAND, Fleet
from airflow_snowpack.maintenance.fleet.report import PassReport
from airflow_snowpack.store import StoreError, new_id
from airflow_snowpack.wire.fleet import ENTRIES, PASSES, PassShape
from airflow_snowpack.worker import process

log = logging.getLogger(__name__)


@command
def list_passes(args: Namespace, here: CommandContext) -> None:
    page = here.installation.fleet_passes.list(limit=args.limit, cursor=args.cursor)
    print_page(args, PASSES, page.items, page.next, here.now)


@command
def show(args: Namespace, here: CommandContext) -> None:
    passes = here.installation.fleet_passes
    found = find(passes.get, passes.ids_beginning, args.fleet_pass, "a pass id")
    entries = passes.entries(found.pass_id)
    if args.output in DATA:
        body = PassShape.encode(found)
        print_data(args.output, body | {"tables": [ENTRIES.body(entry) for entry in entries]})
        return
    if args.output != "plain":
        print("\n".join(PassReport.of(found, entries, here.now).lines()))
    if entries:
        print_list(args.output, ENTRIES, entries, here.now)


@ends_cleanly
def run(args: Namespace) -> None:
    log_to_stderr()
    limits = {"gb_hours": args.gb_hours, "bytes": args.bytes, "tables": args.tables, "time": args.time}
    budget, worker_id = Budget.parse(limits), f"{socket.gethostname()}:{os.getpid()}"
    with SnowpackHook(args.store_conn_id) as hook, ExitStack() as open_until_reported:
        dags = partial(read_dags_of_tables, hook.settings, catalog_conn_id=args.catalog_conn_id)
        catalog = IcebergCatalogHook(args.catalog_conn_id)
        fleet = open_until_reported.enter_context(open_fleet(hook, catalog, dags_of_tables=dags))

        def attend(pass_id: str) -> None:
            open_until_reported.enter_context(fleet.attend(pass_id))

        # An owner of its own: it neither resumes nor ends the pass of another call that still runs.
        planned = fleet.start(f"{COMMAND}{new_id()}/run", budget, workers=1, holder=worker_id, begun=attend)
        if fleet.workers_needed(planned):
            _drain(args, hook, fleet, planned, worker_id)
        report = fleet.report(planned)
        if args.output in DATA:
            print_data(args.output, report.to_json())
        else:
            print("\n".join(report.lines()))


def _drain(args: Namespace, hook: SnowpackHook, fleet: Fleet, planned: Pass, worker_id: str) -> None:
    """Maintain the tables in this process. A signal fails the running job and ends the pass and the process."""
    spark, drain = IcebergSparkHook(args.spark_conn_id, args.catalog_conn_id).spark, fleet.drain(planned, worker_id)
    worker = JobWorker(
        hook.jobs(),
        process.engines(hook.installation, spark),
        worker_id,
        catalog_id=fleet.catalog_id,
        continue_on_error=hook.settings.continue_on_error,
        claim_next=drain.claim_next,
    )
    with ShutdownWatcher(on_signal=lambda name: _stop(fleet, planned, worker, name)):
        drain.run(worker)


def _stop(fleet: Fleet, planned: Pass, worker: JobWorker, signal: str) -> bool:
    """Return whether the process must end now, because a job was running; then its pass is ended, which unlocks its tables."""
    if not worker.abandon(f"Worker received {signal}"):
        return False  # the worker claims no other job, so the pass is reported as usual
    try:
        fleet.report(planned, ask_airflow=False)
    except StoreError as away:
        log.warning("pass_not_ended: %s: the next pass over the catalog ends it: %s", planned.pass_id, away)
    return True
