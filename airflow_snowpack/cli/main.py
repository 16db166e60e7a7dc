"""The commands of ``airflow snowpack``, as Airflow's command line declares them.

Every ``airflow`` call imports this module, so a command's own module loads only when it is called. Help texts are rich markup,
which drops words in brackets.
"""

from __future__ import annotations

from typing import Any, cast

from airflow.cli.cli_config import ActionCommand, CLICommand, GroupCommand, lazy_load_command

from airflow_snowpack.cli import arguments as a


def command(
    name: str, function: str, help: str, *args: a.Arg, example: str, store: bool = True, output: bool = True
) -> ActionCommand:
    """Return a command.

    :param function: below ``airflow_snowpack.cli.commands``.
    :param help: one line, without a full stop.
    :param store: whether it uses the store.
    :param output: whether its output has several forms.
    """
    lazy = lazy_load_command(f"airflow_snowpack.cli.commands.{function}")
    return ActionCommand(
        name=name,
        help=help,
        func=lazy,
        args=cast(Any, (*args, *([a.OUTPUT] if output else []), *([a.STORE_CONN_ID] if store else []))),
        epilog=f"Example:\n  airflow snowpack {example}",
    )


JOBS = GroupCommand("jobs", "Maintenance jobs", (
    command("submit", "submit.submit", "Submit maintenance of a table",
            a.TABLE, a.ACTION, a.OPTIONS, a.WHERE, a.ONLY_IF_NEEDED, a.PRIORITY, a.DRY_RUN, a.IDEMPOTENCY_KEY, a.WAIT, a.TIMEOUT,
            a.WATCH_POLL, a.CATALOG_CONN_ID,
            example="jobs submit demo.flights --action rewrite_data_files --action expire_snapshots --wait --timeout 2h"),
    command("list", "jobs.list_jobs", "List jobs, newest first",
            a.OF_TABLE, a.STATUS, a.SEARCH, a.DAG, a.ONLY_DRY_RUNS, a.SINCE, a.UNTIL, a.LIMIT, a.CURSOR, a.ALL,
            example="jobs list --status failed --since 24h"),
    command("show", "jobs.show", "Show a job: its state and the reason, its actions and its history", a.JOB_ID,
            example="jobs show 3f2a91bc04de"),
    command("watch", "watch.watch", "Watch a job until it ends; exit code 3 when it fails or is cancelled",
            a.JOB_ID, a.TIMEOUT, a.WATCH_POLL,
            example="jobs watch 3f2a91bc04de --timeout 30m"),
    command("cancel", "jobs.cancel", "Cancel pending or running jobs", a.JOB_IDS, a.YES,
            example="jobs cancel 3f2a91bc04de --yes"),
    command("delete", "jobs.delete", "Delete finished jobs", a.JOB_IDS, a.YES,
            example="jobs delete 3f2a91bc04de 90cc7d1e5a02 --yes"),
    command("rerun", "jobs.rerun", "Submit jobs again", a.JOB_IDS, a.CATALOG_CONN_ID, example="jobs rerun 3f2a91bc04de"),
))  # fmt: skip

TABLES = GroupCommand("tables", "The tables of the catalog and their health", (
    command("list", "tables.list_tables", "List the catalog's tables, their scores, last jobs and next steps",
            a.DATABASE, a.SEARCH_TABLES, a.SHOW_TABLES, a.TABLE_ORDER, a.CURSOR_AFTER, a.LIMIT, a.CATALOG_CONN_ID,
            example="tables list --database demo --order need"),
    command("show", "tables.show", "Show the health of a table, from its metadata", a.TABLE, a.CATALOG_CONN_ID,
            example="tables show demo.flights"),
    command("metadata", "tables.metadata", "Show the columns, partitioning, branches, tags and snapshots of a table",
            a.TABLE, a.LIMIT, a.CURSOR_OF_SNAPSHOTS, a.CATALOG_CONN_ID,
            example="tables metadata demo.flights --limit 20"),
    command("plan", "tables.plan", "Show which actions tables need now and why, what those take, and why the others are skipped",
            a.PLANNED_TABLES, a.CATALOG_CONN_ID,
            example="tables plan demo.flights demo.airports"),
    command("refresh", "tables.refresh", "List the catalog again, for all users of the list of tables", a.CATALOG_CONN_ID,
            example="tables refresh"),
    command("forget-catalog", "tables.forget", "Forget where the tables of a catalog that no longer exists had their files",
            a.FORGOTTEN_CATALOG, a.YES,
            example="tables forget-catalog lake@3f2a91bc04de --yes"),
    command("assess", "assess.assess", "Rank the tables that need maintenance; changes nothing, and needs no store",
            a.ASSESSED_TABLES, a.DATABASE, a.SEARCH_TABLES, a.LIMIT, a.HTML, a.POLICIES, a.RESUME, a.CONCURRENCY,
            a.OLD_SNAPSHOTS, a.CATALOG_CONN_ID,
            example="tables assess --html report.html", store=False),
))  # fmt: skip

POLICIES = GroupCommand("policies", "Explain, check and replay maintenance policies", (
    command("explain", "policies.explain", "Show every value of a table's policy, and where it came from",
            a.TABLE, a.POLICIES, a.CATALOG_CONN_ID,
            example="policies explain demo.flights"),
    command("lint", "policies.check", "Find mistakes in the policies and in table properties; exit code 1 if there are any",
            a.POLICIES, a.NO_CATALOG, a.STORED, a.CATALOG_CONN_ID,
            example="policies lint --policies dags/policies.yaml --no-catalog"),
    command("schema", "policies.schema", "Print the JSON Schema of the policies file, for editors",
            example="policies schema", output=False),
    command("replay", "replay.replay", "Simulate what policies would have done on the commits that the tables really had",
            a.ASSESSED_TABLES, a.DATABASE, a.SEARCH_TABLES, a.REPLAYED_DAYS, a.REPLAYED_EVERY, a.POLICIES, a.AGAINST, a.LIMIT,
            a.HTML, a.CATALOG_CONN_ID,
            example="policies replay --days 30 --policies new.yaml --against policies.yaml", store=False),
))  # fmt: skip

LOCKS = GroupCommand("locks", "Locks on tables", (
    command("list", "queue.list_locks", "List locked tables and the holders of the locks", example="locks list"),
    command("release", "queue.release", "Release a lock whose holder no longer exists", a.TABLE, a.HOLDER, a.FORCE, a.YES,
            example="locks release demo.flights --holder etl/2026-11-21"),
))  # fmt: skip

DRAIN = GroupCommand("drain", "Drain mode, which refuses new maintenance and stops claims", (
    command("on", "queue.drain_on", "Refuse new maintenance, stop claims and pause the sweep", a.REASON,
            example='drain on --reason "Postgres moves to its new host"'),
    command("off", "queue.drain_off", "Accept maintenance again", example="drain off"),
    command("status", "queue.drain_status", "Show whether drain mode is on, since when, by whom and why", example="drain status"),
))  # fmt: skip

SCHEDULES = GroupCommand("schedules", "Schedules, and why one has not run", (
    command("list", "schedules.list_schedules", "List schedules, the progress of their triggers and what they wait for",
            a.OF_DAG, a.ENABLED, a.SEARCH_SCHEDULES, a.CURSOR_AFTER, a.LIMIT,
            example="schedules list --enabled"),
    command("show", "schedules.show", "Show a schedule and its definition", a.SCHEDULE,
            example="schedules show page_views_nightly"),
    command("explain", "schedules.explain", "Explain why a schedule has not run", a.SCHEDULE,
            example="schedules explain page_views_nightly"),
    command("history", "schedules.history", "Show the history of a schedule, newest first", a.SCHEDULE, a.LIMIT, a.CURSOR_BEFORE,
            example="schedules history page_views_nightly"),
    command("create", "schedules.create", "Create schedules, suspended unless they set enabled", a.SCHEDULE_FILE,
            example="schedules create nightly.yaml"),
    command("update", "schedules.update", "Change schedules; pending runs stay unless it changes when they run",
            a.SCHEDULE_FILE, a.YES,
            example="schedules update nightly.yaml"),
    command("delete", "schedules.delete", "Delete schedules and discard their pending runs", a.SCHEDULES, a.YES,
            example="schedules delete page_views_nightly --yes"),
    command("suspend", "schedules.suspend", "Suspend schedules: discard pending runs, and count no events", a.SCHEDULES,
            example="schedules suspend page_views_nightly"),
    command("resume", "schedules.resume", "Resume schedules: count events from now on", a.SCHEDULES,
            example="schedules resume page_views_nightly"),
    command("run", "schedules.run", "Start a schedule's DAG now, without its trigger and constraints", a.SCHEDULE,
            example="schedules run page_views_nightly"),
    command("sync", "schedule_files.sync", "Update the store from the files that declare schedules",
            a.SCHEDULE_PATHS, a.UPDATE_SCHEDULES, a.PLAN_SYNC, a.CATALOG_CONN_ID,
            example="schedules sync --dry-run"),
    command("check", "schedule_files.check", "Fail if a table or DAG of a declared schedule is missing or unreadable",
            a.SCHEDULE_PATHS, a.CATALOG_CONN_ID,
            example="schedules check dags"),
))  # fmt: skip

RUNS = GroupCommand("runs", "Registered runs: named DAG runs with default values", (
    command("register", "runs.register", "Register a run: a name for a DAG, its default conf and an optional cron",
            a.REGISTERED, a.RUN_DAG, a.RUN_CONF, a.CRON, a.TZ, a.PRESERVATION, a.RUN_ENABLED, a.DESCRIPTION,
            example="runs register features_daily --dag make_features --cron '0 8 * * *' --tz Europe/Berlin"),
    command("upsert", "runs.upsert", "Register a run, or change it; a repetition changes nothing",
            a.REGISTERED, a.RUN_DAG, a.RUN_CONF, a.CRON, a.TZ, a.PRESERVATION, a.RUN_ENABLED, a.DESCRIPTION, a.YES,
            example="runs upsert features_daily --dag make_features --cron '0 9 * * *' --tz Europe/Berlin"),
    command("enable", "runs.enable", "Enable the crons of runs", a.REGISTERED_RUNS, example="runs enable features_daily"),
    command("disable", "runs.disable", "Disable the crons of runs and discard pending runs", a.REGISTERED_RUNS,
            example="runs disable features_daily"),
    command("unregister", "runs.unregister", "Unregister runs and discard their pending runs", a.REGISTERED_RUNS, a.YES,
            example="runs unregister features_daily --yes"),
    command("list", "runs.list_runs", "List registered runs and their next ticks",
            a.RUNS_OF_DAG, a.ENABLED_RUNS, a.SEARCH_RUNS, a.CURSOR_AFTER, a.LIMIT,
            example="runs list --enabled"),
    command("show", "runs.show", "Show a registered run, its definition and its last DAG runs", a.REGISTERED,
            example="runs show features_daily"),
    command("run", "runs.run", "Start a registered run now, also while it is disabled",
            a.REGISTERED, a.ONE_CONF, a.ONE_PRESERVATION,
            example="runs run features_daily --conf '{\"days\": 30}' --preservation FULL"),
))  # fmt: skip

EVENTS = GroupCommand("events", "Events that schedules listen to", (
    command("list", "events.list_events", "List events, newest first", a.EVENT_KEY, a.LIMIT, a.CURSOR_BEFORE,
            example="events list --key table:lake.demo.flights"),
    command("send", "events.send", "Send a custom event", a.EVENT_NAME, a.AMOUNT, a.DETAIL, a.SOURCE_ID,
            example="events send orders_closed --amount records=900 --source-id 2026-11-21"),
))  # fmt: skip

PENDING = GroupCommand("pending", "Pending runs", (
    command("list", "events.list_pending", "List pending runs and what each waits for", a.STATE, a.OF_SCHEDULE, a.LIMIT, a.CURSOR,
            example="pending list --state pending_constraint"),
))  # fmt: skip

BUILDS = GroupCommand("builds", "Builds: what is published, and rollbacks", (
    command("list", "builds.list_datasets", "List datasets and their current runs", a.CURSOR_AFTER, a.LIMIT,
            example="builds list"),
    command("show", "builds.show", "Show a dataset and its runs, or a run and its shards",
            a.DATASET, a.ANY_RUN, a.LIMIT, a.CURSOR_OF_BUILD, a.STORAGE_CONN_ID,
            example="builds show flights_by_tail 20260425T000000Z"),
    command("verify", "builds.verify", "Read a published build back and check every shard",
            a.DATASET, a.VERIFIED_RUN, a.STORAGE_CONN_ID,
            example="builds verify flights_by_tail"),
    command("publish", "builds.publish", "Publish a complete run", a.DATASET, a.RUN, a.VERIFY, a.STORAGE_CONN_ID,
            example="builds publish flights_by_tail 20260425T000000Z --verify checksums"),
    command("rollback", "builds.rollback", "Roll back to another published build", a.DATASET, a.TO, a.YES, a.STORAGE_CONN_ID,
            example="builds rollback flights_by_tail --to=-1 --yes"),
    command("cleanup", "builds.cleanup", "Delete losing attempts, failed runs and old runs",
            a.DATASET, a.KEEP_RUNS, a.STALE_AGE, a.PLAN_CLEANUP, a.YES, a.STORAGE_CONN_ID,
            example="builds cleanup flights_by_tail --keep-runs 7 --dry-run"),
))  # fmt: skip

INTERIM = GroupCommand("interim", "Interim tables, which tasks pass to each other", (
    command("list", "interim.list_interim", "List interim tables and the tasks that need them",
            a.MADE_BY_DAG, a.MADE_BY_RUN, a.INTERIM_STATE, a.LIMIT, a.CURSOR,
            example="interim list --dag flights"),
    command("show", "interim.show", "Show an interim table, its producer and its consumers", a.INTERIM_TABLE,
            example="interim show lake.snowpack_interim.flights_clean_5d2a91bc04de4f6f8d3c"),
    command("collect", "interim.collect", "Drop the interim tables that no task needs any more",
            a.PLAN_DROPS, a.AIRFLOW_CONN_ID, a.CATALOG_CONN_ID,
            example="interim collect --airflow-conn-id snowpack_airflow --dry-run"),
    command("sweep", "interim.sweep", "Drop interim tables that no record has",
            a.OLDER_THAN, a.PLAN_DROPS, a.YES, a.CATALOG_CONN_ID,
            example="interim sweep --older-than 2d --dry-run"),
    command("adopt", "interim.adopt", "Take over the namespace of interim tables from a deleted store", a.YES, a.CATALOG_CONN_ID,
            example="interim adopt"),
    command("drop", "interim.drop", "Release preserved or named tables, which the collector then drops",
            a.INTERIM_TABLES, a.FORGET, a.YES,
            example="interim drop lake.snowpack_interim.flights_clean_5d2a91bc04de4f6f8d3c --yes"),
))  # fmt: skip

IMAGES = GroupCommand("images", "Images that workers build from Git repositories", (
    command("list", "images.list_images", "List the images that workers build, the latest request first",
            a.IMAGE_STATE, a.LIMIT, a.CURSOR,
            example="images list --state failed"),
    command("show", "images.show", "Show an image and why it is not ready, or its build log", a.IMAGE_KEY, a.IMAGE_LOG,
            example="images show 9f86d081884c --log"),
    command("build", "images.build", "Build an image now, or wait while another process builds it",
            a.REMOTE, a.REVISION, a.DOCKERFILE, a.BUILD_ARG, a.IMAGE_TIMEOUT, a.WATCH_POLL,
            example="images build https://github.com/acme/score.git --revision main --build-arg PYTHON=3.12"),
    command("forget", "images.forget", "Forget images; their next requests build them again", a.IMAGE_KEYS, a.YES,
            example="images forget 9f86d081884c --yes"),
))  # fmt: skip

FLEET = GroupCommand("fleet", "Passes over all tables of the catalog", (
    command("list", "fleet.list_passes", "List passes over all tables, the newest first", a.LIMIT, a.CURSOR,
            example="fleet list --limit 7"),
    command("show", "fleet.show", "Show a pass: its report, and the state and reason of each table", a.PASS,
            example="fleet show 4f1c2b9a6d0e"),
    command("run", "fleet.run", "Plan a pass, maintain its tables in this process, and print its report",
            a.GB_HOURS, a.FLEET_BYTES, a.FLEET_TABLES, a.FLEET_TIME, a.CATALOG_CONN_ID, a.SPARK_CONN_ID,
            example="fleet run --tables 5 --time 30m"),
))  # fmt: skip

REMOVALS = GroupCommand("removals", "Lists of orphan files and old snapshots to delete", (
    command("list", "removals.list_removals", "List removals, the latest plan first",
            a.REMOVALS_OF, a.REMOVAL_STATE, a.LIMIT, a.CURSOR, a.CATALOG_CONN_ID,
            example="removals list --state awaiting_approval"),
    command("show", "removals.show", "Show a removal, or the list of what it deletes",
            a.REMOVAL, a.ITEMS, a.CURSOR_OF_ITEMS, a.LIMIT,
            example="removals show 4f1c2b9a6d0e --items"),
    command("approve", "removals.approve", "Approve a removal; nothing is deleted before it is run", a.REMOVAL, a.COMMENT, a.YES,
            example="removals approve 4f1c2b9a6d0e --comment 'leftovers of the failed import' --yes"),
    command("reject", "removals.reject", "Reject a removal for good", a.REMOVAL, a.COMMENT, a.YES,
            example="removals reject 4f1c2b9a6d0e --yes"),
    command("run", "removals.run", "Delete an approved list, by a job that a worker runs",
            a.REMOVAL, a.YES, a.WAIT, a.TIMEOUT, a.WATCH_POLL,
            example="removals run 4f1c2b9a6d0e --wait --yes"),
    command("restore", "removals.restore", "Restore files from quarantine, by a job that a worker runs",
            a.RESTORED, a.RESTORED_TABLE, a.RESTORED_FILES, a.YES, a.WAIT, a.TIMEOUT, a.WATCH_POLL, a.CATALOG_CONN_ID,
            example="removals restore 4f1c2b9a6d0e --wait --yes"),
))  # fmt: skip

DB = GroupCommand("db", "The tables of the store", (
    command("upgrade", "db.upgrade", "Run the migrations that this version needs",
            example="db upgrade --store-conn-id snowpack_store", output=False),
    command("check", "db.check", "Check that the store answers and its tables are up to date; exit code 1 if not",
            example="db check", output=False),
    command("prune", "db.prune", "Delete old jobs, histories, events and records of builds that are no longer needed",
            a.PRUNED_AGE, a.PLAN_PRUNE, a.YES,
            example="db prune --older-than 180d --dry-run"),
))  # fmt: skip


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its own commands."""
    return [
        GroupCommand(
            name="snowpack",
            help="Maintain Apache Iceberg tables, and run DAGs when their data arrives",
            description=(
                "Maintain Apache Iceberg tables: submit maintenance, and see the health of tables and the state of jobs.\n"
                "Most commands take --output json for programs."
            ),
            subcommands=(
                JOBS, TABLES, POLICIES, LOCKS, DRAIN, SCHEDULES, RUNS, EVENTS, PENDING, BUILDS, INTERIM, IMAGES, FLEET, REMOVALS,
                DB,
                command("digest", "digest.show", "Show what maintenance did in the last 24 hours, and what failed",
                        example="digest"),
                command("queue", "queue.show", "Show how many jobs wait and run, now or in the last hours", a.HISTORY,
                        example="queue --history 24"),
                command("workers", "queue.workers", "List workers, what they run, and when they were seen", example="workers"),
                command("sweep", "queue.sweep", "Requeue the jobs of dead workers, and cancel those of ended tasks",
                        example="sweep"),
                command("audit", "queue.audit", "List changes and their users, newest first", a.SUBJECT, a.LIMIT, a.CURSOR_BEFORE,
                        example="audit --subject demo.flights"),
                command("lineage", "lineage.show", "Show a table's upstream and downstream lineage",
                        a.LINEAGE_OF, a.UP, a.DOWN, a.BOTH, a.DEPTH,
                        example="lineage shop.report --up --depth 3"),
                command("doctor", "doctor.examine", "Check this installation and show how to fix problems",
                        a.NO_SPARK, a.CATALOG_CONN_ID, a.SPARK_CONN_ID,
                        example="doctor --no-spark"),
                command("worker", "worker.work", "Run jobs from the queue until SIGTERM",
                        a.ONCE, a.MAX_JOBS, a.WORKER_POLL, a.WORKER_ID, a.CATALOG_CONN_IDS, a.SPARK_CONN_ID,
                        example="worker --worker-id pod-7", output=False),
                command("scheduler", "scheduler.schedule", "Start the DAG runs of schedules until SIGTERM",
                        a.SCHEDULER_POLL, a.AIRFLOW_CONN_ID, a.CATALOG_CONN_ID,
                        example="scheduler --airflow-conn-id snowpack_airflow", output=False),
                command("api", "api.serve", "Serve the REST API and its pages, for clients with the token",
                        a.HOST, a.PORT, a.TOKEN_FILE, a.CATALOG_CONN_ID,
                        example="api --port 8085 --token-file /run/secrets/snowpack", output=False),
            ),
        )
    ]  # fmt: skip
