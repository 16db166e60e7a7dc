"""The commands of ``airflow snowpack``, as Airflow's command line wants them declared.

Every ``airflow`` call imports this module, so the commands themselves load only when they are called. The help texts are read as
rich markup, where a word in brackets would vanish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.cli.cli_config import ActionCommand, CLICommand, GroupCommand, lazy_load_command

from airflow_snowpack.cli import arguments as a

if TYPE_CHECKING:
    from airflow.cli.cli_config import Arg


def command(name: str, function: str, help: str, *args: Arg, example: str) -> ActionCommand:
    """One command.

    :param function: below ``airflow_snowpack.cli``.
    :param help: one line, without a full stop.
    :param example: stands below the command's own help.
    """
    lazy = lazy_load_command(f"airflow_snowpack.cli.{function}")
    return ActionCommand(
        name=name, help=help, func=lazy, args=(*args, a.STORE_CONN_ID), epilog=f"Example:\n  airflow snowpack {example}"
    )


JOBS = (
    command(
        "submit", "submit.submit", "Ask for maintenance of a table",
        a.TABLE, a.ACTION, a.OPTIONS, a.WHERE, a.DRY_RUN, a.IDEMPOTENCY_KEY,
        a.WAIT, a.TIMEOUT, a.WATCH_POLL, a.CATALOG_CONN_ID, a.OUTPUT,
        example="jobs submit demo.flights --action rewrite_data_files --action expire_snapshots --wait --timeout 2h",
    ),
    command(
        "list", "jobs.list_jobs", "List jobs, the newest first",
        a.OF_TABLE, a.STATUS, a.SEARCH, a.DAG, a.ONLY_DRY_RUNS, a.SINCE, a.UNTIL, a.LIMIT, a.CURSOR, a.ALL, a.OUTPUT,
        example="jobs list --status failed --since 24h",
    ),
    command(
        "show", "jobs.show", "Show one job: where it stands and why, its actions and its history", a.JOB_ID, a.OUTPUT,
        example="jobs show 3f2a91bc04de",
    ),
    command(
        "watch", "watch.watch", "Watch a job until it ends; exit code 3 when it fails or is cancelled",
        a.JOB_ID, a.TIMEOUT, a.WATCH_POLL, a.OUTPUT,
        example="jobs watch 3f2a91bc04de --timeout 30m",
    ),
    command(
        "cancel", "jobs.cancel", "Cancel jobs that wait or run, for good", a.JOB_IDS, a.YES, a.OUTPUT,
        example="jobs cancel 3f2a91bc04de --yes",
    ),
    command(
        "delete", "jobs.delete", "Delete jobs that have ended", a.JOB_IDS, a.YES, a.OUTPUT,
        example="jobs delete 3f2a91bc04de 90cc7d1e5a02 --yes",
    ),
    command(
        "rerun", "jobs.rerun", "Submit the requests of jobs once more", a.JOB_IDS, a.OUTPUT,
        example="jobs rerun 3f2a91bc04de",
    ),
)  # fmt: skip

TABLES = (
    command(
        "list", "tables.list_tables", "List the catalog's tables, their last jobs and what comes next",
        a.DATABASE, a.SEARCH_TABLES, a.AFTER, a.LIMIT, a.CATALOG_CONN_ID, a.OUTPUT,
        example="tables list --database demo",
    ),
    command(
        "show", "tables.show", "Show how one table is, from its metadata", a.TABLE, a.CATALOG_CONN_ID, a.OUTPUT,
        example="tables show demo.flights",
    ),
    command(
        "refresh", "tables.refresh", "List the catalog now, for everybody who asks for its tables", a.CATALOG_CONN_ID, a.OUTPUT,
        example="tables refresh",
    ),
)  # fmt: skip

LOCKS = (
    command("list", "locks.list_locks", "List the tables that are locked, and by whom", a.OUTPUT, example="locks list"),
    command(
        "release", "locks.release", "Free a table whose holder is gone", a.TABLE, a.HOLDER, a.FORCE, a.YES, a.OUTPUT,
        example="locks release demo.flights --holder etl/2026-11-21",
    ),
)  # fmt: skip

DRAIN = (
    command(
        "on", "drain.switch_on", "Refuse new maintenance and pause the sweep", a.REASON, a.OUTPUT,
        example='drain on --reason "Postgres moves to its new host"',
    ),
    command("off", "drain.switch_off", "Accept maintenance again", a.OUTPUT, example="drain off"),
    command("status", "drain.show", "Tell whether drain mode is on, and since when, by whom and why", a.OUTPUT,
            example="drain status"),
)  # fmt: skip

DB = (
    command(
        "upgrade", "db.upgrade", "Bring the store's tables to the revision that this version needs",
        example="db upgrade --store-conn-id snowpack_store",
    ),
    command(
        "check", "db.check", "Tell whether the store answers and its tables are up to date; exit code 1 when not",
        example="db check",
    ),
)  # fmt: skip


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its own commands."""
    return [
        GroupCommand(
            name="snowpack",
            help="Maintain Apache Iceberg tables",
            description=(
                "Maintain Apache Iceberg tables: ask for maintenance, watch it, and see how tables and jobs are.\n"
                "Lists and answers take --output json for programs."
            ),
            subcommands=(
                GroupCommand(name="jobs", help="Requests for maintenance and what became of them", subcommands=JOBS),
                GroupCommand(name="tables", help="The tables of the catalog and how they are", subcommands=TABLES),
                GroupCommand(name="locks", help="Who has which table", subcommands=LOCKS),
                GroupCommand(name="drain", help="Refuse new maintenance for a while", subcommands=DRAIN),
                GroupCommand(name="db", help="The database of jobs, locks and claims", subcommands=DB),
                command("queue", "queue.show", "Tell how much work waits and runs", a.OUTPUT, example="queue"),
                command("sweep", "queue.sweep", "Take back what dead workers left", a.OUTPUT, example="sweep"),
                command(
                    "audit", "audit.show", "Tell who did what, the newest first", a.SUBJECT, a.LIMIT, a.BEFORE, a.OUTPUT,
                    example="audit --subject demo.flights",
                ),
                command(
                    "worker", "worker.work", "Run jobs from the queue until it is told to stop",
                    a.ONCE, a.MAX_JOBS, a.WORKER_POLL, a.WORKER_ID, a.CATALOG_CONN_ID, a.SPARK_CONN_ID,
                    example="worker --worker-id pod-7",
                ),
                command(
                    "api", "serve.serve", "Serve the REST API and its pages, for whoever has the token",
                    a.HOST, a.PORT, a.TOKEN_FILE, a.CATALOG_CONN_ID,
                    example="api --port 8085 --token-file /run/secrets/snowpack",
                ),
            ),
        )
    ]  # fmt: skip
