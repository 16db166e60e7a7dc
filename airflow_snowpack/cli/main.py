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

    :param function: below ``airflow_snowpack.cli.commands``.
    :param help: one line, without a full stop.
    :param example: stands below the command's own help.
    """
    lazy = lazy_load_command(f"airflow_snowpack.cli.commands.{function}")
    return ActionCommand(
        name=name, help=help, func=lazy, args=(*args, a.STORE_CONN_ID), epilog=f"Example:\n  airflow snowpack {example}"
    )


JOBS = (
    command(
        "submit", "submit.submit", "Ask for maintenance of a table",
        a.TABLE, a.ACTION, a.OPTIONS, a.WHERE, a.ONLY_IF_NEEDED, a.DRY_RUN, a.IDEMPOTENCY_KEY,
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
        "rerun", "jobs.rerun", "Submit the requests of jobs once more", a.JOB_IDS, a.CATALOG_CONN_ID, a.OUTPUT,
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
    command("list", "queue.list_locks", "List the tables that are locked, and by whom", a.OUTPUT, example="locks list"),
    command(
        "release", "queue.release", "Free a table whose holder is gone", a.TABLE, a.HOLDER, a.FORCE, a.YES, a.OUTPUT,
        example="locks release demo.flights --holder etl/2026-11-21",
    ),
)  # fmt: skip

DRAIN = (
    command(
        "on", "queue.drain_on", "Refuse new maintenance and pause the sweep", a.REASON, a.OUTPUT,
        example='drain on --reason "Postgres moves to its new host"',
    ),
    command("off", "queue.drain_off", "Accept maintenance again", a.OUTPUT, example="drain off"),
    command("status", "queue.drain_status", "Tell whether drain mode is on, and since when, by whom and why", a.OUTPUT,
            example="drain status"),
)  # fmt: skip

SCHEDULES = (
    command(
        "list", "schedules.list_schedules", "List schedules, how far their triggers are and what they wait for",
        a.OF_DAG, a.ENABLED, a.SEARCH_SCHEDULES, a.AFTER_SCHEDULE, a.LIMIT, a.OUTPUT,
        example="schedules list --enabled",
    ),
    command(
        "show", "schedules.show", "Show how a schedule is declared", a.SCHEDULE, a.OUTPUT,
        example="schedules show page_views_nightly",
    ),
    command(
        "explain", "schedules.explain", "Tell why a schedule has not run", a.SCHEDULE, a.OUTPUT,
        example="schedules explain page_views_nightly",
    ),
    command(
        "history", "schedules.history", "Tell what became of a schedule's wishes, the newest first",
        a.SCHEDULE, a.LIMIT, a.BEFORE_LINE, a.OUTPUT,
        example="schedules history page_views_nightly",
    ),
    command(
        "create", "schedules.create", "Create schedules; they are suspended unless they say enabled",
        a.SCHEDULE_FILE, a.OUTPUT,
        example="schedules create nightly.yaml",
    ),
    command(
        "update", "schedules.update", "Change schedules; what is pending is discarded", a.SCHEDULE_FILE, a.OUTPUT,
        example="schedules update nightly.yaml",
    ),
    command(
        "delete", "schedules.delete", "Delete schedules, and what is pending with them", a.SCHEDULES, a.YES, a.OUTPUT,
        example="schedules delete page_views_nightly --yes",
    ),
    command(
        "suspend", "schedules.suspend", "Discard what is pending, and let no event count", a.SCHEDULES, a.OUTPUT,
        example="schedules suspend page_views_nightly",
    ),
    command(
        "resume", "schedules.resume", "Let events count, from now on", a.SCHEDULES, a.OUTPUT,
        example="schedules resume page_views_nightly",
    ),
    command(
        "run", "schedules.run", "Start a schedule's DAG now, whatever its trigger and constraints say",
        a.SCHEDULE, a.OUTPUT,
        example="schedules run page_views_nightly",
    ),
    command(
        "sync", "schedule_files.sync", "Bring the store in line with the files that declare schedules",
        a.SCHEDULE_PATHS, a.UPDATE_SCHEDULES, a.PLAN_SYNC, a.CATALOG_CONN_ID, a.OUTPUT,
        example="schedules sync --dry-run",
    ),
    command(
        "check", "schedule_files.check", "Fail if a table or a DAG that declared schedules need is missing or cannot be read",
        a.SCHEDULE_PATHS, a.CATALOG_CONN_ID, a.OUTPUT,
        example="schedules check dags",
    ),
)  # fmt: skip

RUNS = (
    command(
        "register", "runs.register", "Register a run: a DAG under a name, with its usual conf and perhaps a cron",
        a.REGISTERED, a.RUN_DAG, a.RUN_CONF, a.CRON, a.TZ, a.PRESERVATION, a.RUN_ENABLED, a.DESCRIPTION, a.OUTPUT,
        example="runs register features_daily --dag make_features --cron '0 8 * * *' --tz Europe/Berlin",
    ),
    command(
        "upsert", "runs.upsert", "Register a run, or let it be as it is said here; done twice, it changes nothing",
        a.REGISTERED, a.RUN_DAG, a.RUN_CONF, a.CRON, a.TZ, a.PRESERVATION, a.RUN_ENABLED, a.DESCRIPTION, a.OUTPUT,
        example="runs upsert features_daily --dag make_features --cron '0 9 * * *' --tz Europe/Berlin",
    ),
    command(
        "enable", "runs.enable", "Let runs' crons count, from now on", a.REGISTERED_RUNS, a.OUTPUT,
        example="runs enable features_daily",
    ),
    command(
        "disable", "runs.disable", "Discard what is pending, and let runs' crons not count", a.REGISTERED_RUNS, a.OUTPUT,
        example="runs disable features_daily",
    ),
    command(
        "unregister", "runs.unregister", "Unregister runs, and discard what is pending with them",
        a.REGISTERED_RUNS, a.YES, a.OUTPUT,
        example="runs unregister features_daily --yes",
    ),
    command(
        "list", "runs.list_runs", "List registered runs, and when each comes next",
        a.RUNS_OF_DAG, a.ENABLED_RUNS, a.SEARCH_RUNS, a.AFTER_RUN, a.LIMIT, a.OUTPUT,
        example="runs list --enabled",
    ),
    command(
        "show", "runs.show", "Show how a run is registered, and how its last ones ended", a.REGISTERED, a.OUTPUT,
        example="runs show features_daily",
    ),
    command(
        "run", "runs.run", "Start a registered run now, also while it is disabled",
        a.REGISTERED, a.ONE_CONF, a.ONE_PRESERVATION, a.OUTPUT,
        example="runs run features_daily --conf '{\"days\": 30}' --preservation FULL",
    ),
)  # fmt: skip

EVENTS = (
    command(
        "list", "events.list_events", "List what happened, the newest first",
        a.EVENT_KEY, a.LIMIT, a.BEFORE_LINE, a.OUTPUT,
        example="events list --key table:lake.demo.flights",
    ),
    command(
        "send", "events.send", "Tell of something that happened elsewhere",
        a.EVENT_NAME, a.AMOUNT, a.DETAIL, a.SOURCE_ID, a.OUTPUT,
        example="events send orders_closed --amount records=900 --source-id 2026-11-21",
    ),
)  # fmt: skip

PENDING = (
    command(
        "list", "events.list_pending", "List runs that may come, and what each waits for",
        a.STATE, a.OF_SCHEDULE, a.LIMIT, a.CURSOR, a.OUTPUT,
        example="pending list --state pending_constraint",
    ),
)  # fmt: skip

BUILDS = (
    command(
        "list", "builds.list_datasets", "List the datasets that are built, and what readers of each see",
        a.AFTER_DATASET, a.LIMIT, a.OUTPUT,
        example="builds list",
    ),
    command(
        "show", "builds.show", "Show a dataset and its runs, or a run and its shards with winners and losers",
        a.DATASET, a.ANY_RUN, a.LIMIT, a.BEFORE_RUN, a.AFTER_SHARD, a.STORAGE_CONN_ID, a.OUTPUT,
        example="builds show flights_by_tail 20260425T000000Z",
    ),
    command(
        "verify", "builds.verify", "Read a published build back, and check that every shard is what was written",
        a.DATASET, a.VERIFIED_RUN, a.STORAGE_CONN_ID, a.OUTPUT,
        example="builds verify flights_by_tail",
    ),
    command(
        "publish", "builds.publish", "Publish a run whose winners were selected",
        a.DATASET, a.RUN, a.STORAGE_CONN_ID, a.OUTPUT,
        example="builds publish flights_by_tail 20260425T000000Z",
    ),
    command(
        "rollback", "builds.rollback", "Let readers see another published build",
        a.DATASET, a.TO, a.YES, a.STORAGE_CONN_ID, a.OUTPUT,
        example="builds rollback flights_by_tail --to=-1 --yes",
    ),
    command(
        "cleanup", "builds.cleanup", "Delete losing attempts, runs that failed, and old runs",
        a.DATASET, a.KEEP_RUNS, a.STALE_AGE, a.PLAN_CLEANUP, a.YES, a.STORAGE_CONN_ID, a.OUTPUT,
        example="builds cleanup flights_by_tail --keep-runs 7 --dry-run",
    ),
)  # fmt: skip

INTERIM = (
    command(
        "list", "interim.list_interim", "List the tables that tasks hand to each other, and who needs each",
        a.MADE_BY_DAG, a.MADE_BY_RUN, a.INTERIM_STATE, a.LIMIT, a.CURSOR, a.OUTPUT,
        example="interim list --dag flights",
    ),
    command(
        "show", "interim.show", "Show an interim table: who made it, who needs it, and why it stays", a.INTERIM_TABLE, a.OUTPUT,
        example="interim show lake.snowpack_interim.flights_clean_5d2a91bc04de4f6f8d3c",
    ),
    command(
        "collect", "interim.collect", "Ask Airflow who has finished, and drop what nobody needs any more",
        a.PLAN_DROPS, a.AIRFLOW_CONN_ID, a.CATALOG_CONN_ID, a.OUTPUT,
        example="interim collect --airflow-conn-id snowpack_airflow --dry-run",
    ),
    command(
        "sweep", "interim.sweep", "Drop what is called like an interim table and in no record",
        a.OLDER_THAN, a.PLAN_DROPS, a.YES, a.CATALOG_CONN_ID, a.OUTPUT,
        example="interim sweep --older-than 2d --dry-run",
    ),
    command(
        "adopt", "interim.adopt", "Take over the namespace of interim tables from a store that is gone for good",
        a.YES, a.CATALOG_CONN_ID, a.OUTPUT,
        example="interim adopt",
    ),
    command(
        "drop", "interim.drop", "Let go of tables that are preserved or named; the collector drops them next",
        a.INTERIM_TABLES, a.FORGET, a.YES, a.OUTPUT,
        example="interim drop lake.snowpack_interim.flights_clean_5d2a91bc04de4f6f8d3c --yes",
    ),
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
    command(
        "prune", "db.prune", "Delete old jobs, histories, events and records of builds that nothing needs any more",
        a.PRUNED_AGE, a.PLAN_PRUNE, a.YES, a.OUTPUT,
        example="db prune --older-than 180d --dry-run",
    ),
)  # fmt: skip


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its own commands."""
    return [
        GroupCommand(
            name="snowpack",
            help="Maintain Apache Iceberg tables, and run DAGs when their data is there",
            description=(
                "Maintain Apache Iceberg tables: ask for maintenance, watch it, and see how tables and jobs are.\n"
                "Lists and answers take --output json for programs."
            ),
            subcommands=(
                GroupCommand(name="jobs", help="Requests for maintenance and what became of them", subcommands=JOBS),
                GroupCommand(name="tables", help="The tables of the catalog and how they are", subcommands=TABLES),
                GroupCommand(name="locks", help="Who has which table", subcommands=LOCKS),
                GroupCommand(name="drain", help="Refuse new maintenance for a while", subcommands=DRAIN),
                GroupCommand(name="schedules", help="When DAGs run, and why one has not", subcommands=SCHEDULES),
                GroupCommand(name="runs", help="DAG runs under names of their own, with defaults", subcommands=RUNS),
                GroupCommand(name="events", help="What happened, for schedules that listen to it", subcommands=EVENTS),
                GroupCommand(name="pending", help="Runs that may come", subcommands=PENDING),
                GroupCommand(name="builds", help="Snapshots for serving: what is published, and going back", subcommands=BUILDS),
                GroupCommand(name="interim", help="Tables that tasks hand to each other", subcommands=INTERIM),
                GroupCommand(name="db", help="The database of jobs, locks and claims", subcommands=DB),
                command("queue", "queue.show", "Tell how much work waits and runs", a.OUTPUT, example="queue"),
                command("sweep", "queue.sweep", "Take back what dead workers left", a.OUTPUT, example="sweep"),
                command(
                    "audit", "queue.audit", "Tell who did what, the newest first", a.SUBJECT, a.LIMIT, a.BEFORE, a.OUTPUT,
                    example="audit --subject demo.flights",
                ),
                command(
                    "lineage", "lineage.show", "Draw which tables a table came from, and which came of it",
                    a.LINEAGE_OF, a.UP, a.DOWN, a.BOTH, a.DEPTH, a.OUTPUT,
                    example="lineage shop.report --up --depth 3",
                ),
                command(
                    "doctor", "doctor.examine", "Check this installation, and say what to do about what is wrong",
                    a.NO_SPARK, a.CATALOG_CONN_ID, a.SPARK_CONN_ID, a.OUTPUT,
                    example="doctor --no-spark",
                ),
                command(
                    "worker", "worker.work", "Run jobs from the queue until it is told to stop",
                    a.ONCE, a.MAX_JOBS, a.WORKER_POLL, a.WORKER_ID, a.CATALOG_CONN_ID, a.SPARK_CONN_ID,
                    example="worker --worker-id pod-7",
                ),
                command(
                    "scheduler", "scheduler.schedule", "Start the DAG runs that schedules want, until it is told to stop",
                    a.SCHEDULER_POLL, a.AIRFLOW_CONN_ID, a.CATALOG_CONN_ID,
                    example="scheduler --airflow-conn-id snowpack_airflow",
                ),
                command(
                    "api", "api.serve", "Serve the REST API and its pages, for whoever has the token",
                    a.HOST, a.PORT, a.TOKEN_FILE, a.CATALOG_CONN_ID,
                    example="api --port 8085 --token-file /run/secrets/snowpack",
                ),
            ),
        )
    ]  # fmt: skip
