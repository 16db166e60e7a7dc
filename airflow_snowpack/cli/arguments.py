"""The arguments of the commands, each declared once.

Every ``airflow`` call imports this module, so it imports next to nothing. Choices are plain words, which argcomplete offers; a
test compares them with the rooms' own.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

IMAGE_STATES = ("waiting", "building", "ready", "failed")
INTERIM_STATES = ("writing", "ready", "dropping")
PRESERVATIONS = ("NONE", "FULL")
REMOVAL_STATES = (
    "planned", "awaiting_approval", "approved", "rejected", "deleting", "quarantined", "deleted", "restored", "expired", "failed",
)  # fmt: skip
PENDING_STATES = ("pending_trigger", "pending_constraint", "pending_launch")
STATUSES = ("pending", "running", "completed", "failed", "cancelled")


@dataclass(frozen=True)
class Arg:
    """An argument as Airflow's command line reads it. Airflow's own class would need Airflow, and ``snowpack assess`` has none.

    :param flags: the names of an option, or the name of a positional argument.
    :param kwargs: of :meth:`argparse.ArgumentParser.add_argument`.
    """

    flags: tuple[str, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def add_to_parser(self, parser: ArgumentParser) -> None:
        parser.add_argument(*self.flags, **self.kwargs)


class _ActionWords:
    """The names of the actions and ``auto``, read when a command is parsed or completed."""

    def __iter__(self) -> Iterator[str]:
        from airflow_snowpack.maintenance import action_names

        return iter((*map(str, action_names()), "auto"))  # argparse shows the choices by repr()


def arg(*flags: str, **kwargs: Any) -> Arg:
    return Arg(flags, kwargs)


def conn_id(name: str, what: str, setting: str, without: str, **kwargs: Any) -> Arg:
    """Return the option of a connection that replaces the installation's."""
    return arg(
        f"--{name}-conn-id",
        metavar="CONN_ID",
        help=f"The Airflow connection of {what}; the default is the setting {setting}, or {without}",
        **kwargs,
    )


def state(states: tuple[str, ...], what: str, flag: str = "--state", *, repeated: bool = False) -> Arg:
    """Return the option that narrows a list to a state, or when it may be repeated, to any of several."""
    several = "; may be repeated" if repeated else ""
    how: dict[str, Any] = {"action": "append"} if repeated else {}
    text = f"Only {what} in this state{several}. One of: {', '.join(states)}"
    return arg("-s", flag, choices=states, metavar=flag[2:].upper(), help=text, **how)


def cursor(*former: str, **kwargs: Any) -> Arg:
    """Return the option of the next page, which is accepted under its former names too."""
    return arg("--cursor", *former, metavar="CURSOR", help="Show the next page; the page before shows its cursor", **kwargs)


def port(text: str) -> int:
    """:raises ArgumentTypeError: the text is not a port."""
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 65_536:
        raise ArgumentTypeError(f"must be a whole number from 1 to 65535, not {text!r}")
    return int(text)


def _count(text: str) -> int:
    if not text.strip().lstrip("+").isdecimal() or (number := int(text)) < 1:
        raise ArgumentTypeError(f"invalid positive int value: {text!r}")
    return number


def _hours(text: str) -> int:
    if (number := _count(text)) > 168:
        raise ArgumentTypeError(f"must be at most 168, a week, not {number}")
    return number


OUTPUT = arg(
    "-o", "--output", choices=("table", "json", "yaml", "plain"), default="table", metavar="(table, json, yaml, plain)",
    help="Output format. Allowed values: json, yaml, plain, table (default: table)",
)  # fmt: skip
YES = arg("-y", "--yes", action="store_true", default=False, help="Do not prompt to confirm. Use with care!")

STORE_CONN_ID = conn_id("store", "the store", "store_conn_id", "the embedded file")
CATALOG_CONN_ID = conn_id("catalog", "the Iceberg catalog", "catalog_conn_id", "the embedded catalog")
CATALOG_CONN_IDS = conn_id(
    "catalog", "an Iceberg catalog (may be repeated)", "catalog_conn_id", "the embedded catalog", action="append"
)
AIRFLOW_CONN_ID = conn_id("airflow", "Airflow's own REST API", "airflow_conn_id", "an error")
SPARK_CONN_ID = conn_id("spark", "the Spark cluster", "spark_conn_id", "a session in this process")

NO_SPARK = arg("--no-spark", action="store_true", help="Do not start Spark, which takes some seconds")

TABLE = arg("table", metavar="DATABASE.TABLE", help="The table, without its catalog")
PLANNED_TABLES = arg("tables", metavar="DATABASE.TABLE", nargs="+", help="The tables, without their catalog")
JOB_ID = arg("job_id", metavar="JOB", help="A job's id, or at least its first 8 characters")
JOB_IDS = arg("job_ids", metavar="JOB", nargs="+", help="Jobs' ids, or at least the first 8 characters of each")

# policies
POLICIES = arg("--policies", metavar="FILE", help="The policies file; the default is the setting policies, in the DAGs folder")
NO_CATALOG = arg("--no-catalog", action="store_true", help="Check the file only, without the catalog and its tables")
STORED = arg("--stored", action="store_true", help="Take the properties of the stored health, and read only tables without it")

# submit
ACTION = arg(
    "-a", "--action", action="append", choices=_ActionWords(), metavar="ACTION",
    help="An action to run; may be repeated. One of:\n%(choices)s.\nWithout it, the first five. They run in the installation's "
    "order. auto: those that the plan of the table runs",
)  # fmt: skip
OPTIONS = arg("--options", metavar="JSON", help="Options of the actions: a JSON object with an object for each action")
WHERE = arg("--where", metavar="PREDICATE", help='A Spark predicate that narrows the rewrites, such as "month = 3"')
ONLY_IF_NEEDED = arg(
    "--only-if-needed",
    action=BooleanOptionalAction,
    default=True,
    help="Skip, without Spark, each action that has nothing to do by the table's metadata (default), or run each one",
)
PRIORITY = arg(
    "--priority",
    type=int,
    default=0,
    metavar="N",
    help="From -1000 to 1000 (default: 0); the highest of the waiting jobs runs first",
)
DRY_RUN = arg("-n", "--dry-run", action="store_true", help="Only report what each action would do, from the table's metadata")
IDEMPOTENCY_KEY = arg("--idempotency-key", metavar="KEY", help="The same request with the same key returns the same job")
WAIT = arg("-w", "--wait", action="store_true", help="Watch the job until it ends; exit code 3 when it fails or is cancelled")

# watch
TIMEOUT = arg("--timeout", metavar="PERIOD", help="Watch for no longer than this (30s, 5m, 2h), then end with exit code 124")
WATCH_POLL = arg("--poll", metavar="PERIOD", default="1s", help="The pause between two polls (default: 1s)")

# lists of jobs
OF_TABLE = arg("-t", "--table", metavar="DATABASE.TABLE", help="Only jobs of this table")
STATUS = state(STATUSES, "jobs", "--status", repeated=True)
SEARCH = arg("--search", metavar="TEXT", help="Only jobs with this in their table's name, id, user, task or error")
DAG = arg("--dag", metavar="DAG_ID", help="Only jobs of this DAG's tasks")
ONLY_DRY_RUNS = arg("--dry-run", action=BooleanOptionalAction, default=None, help="Only dry runs, or none of them")
SINCE = arg("--since", metavar="WHEN", help="Submitted at this time (ISO 8601, UTC) or later; or 2h for the last two hours")
UNTIL = arg("--until", metavar="WHEN", help="Submitted before this time; or 2h for more than two hours ago")
LIMIT = arg("--limit", type=_count, default=50, metavar="N", help="How many at most (default: 50)")
CURSOR = cursor()
CURSOR_AFTER = cursor("--after")
CURSOR_BEFORE = cursor("--before", type=_count)
CURSOR_OF_SNAPSHOTS = cursor(type=int)
ALL = arg("--all", action="store_true", help="Show all of them")

# the queue, tables, locks, audit
HISTORY = arg("--history", type=_hours, metavar="HOURS", help="Show how it went in each of the last hours, at most 168")
DATABASE = arg("-d", "--database", metavar="DATABASE", help="Only tables of this database")
SEARCH_TABLES = arg("--search", metavar="TEXT", help="Only tables with this in their name")
TABLE_ORDER = arg(
    "--order", choices=("name", "need"), default="name", help="By name (the default), or those that need maintenance most first"
)
SHOW_TABLES = arg(
    "--show", choices=("failed", "never", "running"),
    help="Only tables whose last job failed, that were never maintained, or whose job waits or runs",
)  # fmt: skip
FORGOTTEN_CATALOG = arg("catalog", metavar="CATALOG", help="The catalog's name and identity, such as lake@3f2a91bc04de")
ASSESSED_TABLES = arg(
    "tables", metavar="DATABASE.TABLE", nargs="*", help="The tables, without their catalog; without any, all of the catalog"
)
HTML = arg("--html", metavar="FILE", help="Also write a report with charts, as one HTML file that loads nothing from elsewhere")
RESUME = arg(
    "--resume", metavar="FILE",
    help="Keeps what was read, so that an interrupted run can go on; the default is beside the report, and deleted at the end",
)  # fmt: skip
OLD_SNAPSHOTS = arg(
    "--old-snapshots", action=BooleanOptionalAction, default=True,
    help="Read the manifests of snapshots that would expire, for the bytes that this would free (default), or only current ones",
)  # fmt: skip
REPLAYED_DAYS = arg("--days", type=_count, default=30, metavar="N", help="How many days back the replay begins (default: 30)")
REPLAYED_EVERY = arg(
    "--every", default="1d", metavar="PERIOD", help="The time from one pass over the fleet to the next (default: 1d)"
)
AGAINST = arg("--against", metavar="FILE", help="Also replay these policies, and compare: the current ones, for example")
CONCURRENCY = arg(
    "--concurrency", type=_count, default=8, metavar="N", help="How many tables are read at the same time (default: 8)"
)
HOLDER = arg("--holder", metavar="NAME", help="Release the lock only if it has this holder: a name, or a job's id")
FORCE = arg("--force", action="store_true", help="Even if the worker of a cancelled job may still be writing to the table")
REASON = arg("--reason", metavar="TEXT", help="Shown to users whose submissions are refused")
SUBJECT = arg(
    "--subject", metavar="WHAT",
    help=(
        "Only changes of this: a job's id, a table, drain, queue, schedule:NAME, run:NAME, build:DATASET, interim:ID, image:KEY, "
        "removal:ID"
    ),
)  # fmt: skip

# schedules, events, pending jobs
SCHEDULE = arg("schedule", metavar="SCHEDULE", help="The schedule's name")
SCHEDULES = arg("schedules", metavar="SCHEDULE", nargs="+", help="Schedules' names")
SCHEDULE_FILE = arg("file", metavar="FILE", help="A YAML or JSON file with one schedule, or with a list of them; - for stdin")
SCHEDULE_PATHS = arg(
    "paths", metavar="PATH", nargs="*",
    help="Files that declare schedules, and folders that are searched for them; without any, the DAGs folder",
)  # fmt: skip
OF_DAG = arg("--dag", metavar="DAG_ID", help="Only schedules of this DAG")
ENABLED = arg("--enabled", action=BooleanOptionalAction, default=None, help="Only enabled schedules, or only suspended ones")
SEARCH_SCHEDULES = arg("--search", metavar="TEXT", help="Only schedules with this in their name or their DAG's id")
UPDATE_SCHEDULES = arg(
    "--update-schedules", action=BooleanOptionalAction, default=None,
    help="Whether the files overwrite the store; the default is the setting update_schedules",
)  # fmt: skip
PLAN_SYNC = arg("-n", "--dry-run", action="store_true", help="Only report what would be created, changed and deleted")
EVENT_NAME = arg("name", metavar="NAME", help="The name in triggers of the kind custom_events")
AMOUNT = arg(
    "--amount", action="append", metavar="NAME=NUMBER", help="What it adds to counts, such as records=900; may be repeated"
)
DETAIL = arg("--detail", metavar="JSON", help="For people and for the run that it starts: a JSON object")
SOURCE_ID = arg("--source-id", metavar="ID", help="Your id of the event; the same name and id is the same event")
EVENT_KEY = arg("--key", metavar="KEY", help="Only events of this key, such as table:lake.demo.flights")
STATE = state(PENDING_STATES, "pending runs", repeated=True)
OF_SCHEDULE = arg("--schedule", dest="of_schedule", metavar="SCHEDULE", help="Only pending runs of this schedule")

# registered runs
REGISTERED = arg("run", metavar="RUN", help="The registered run's name")
REGISTERED_RUNS = arg("runs", metavar="RUN", nargs="+", help="Registered runs' names")
RUN_DAG = arg("--dag", dest="dag_id", required=True, metavar="DAG_ID", help="The DAG that it starts")
RUN_CONF = arg("--conf", metavar="JSON", help="The dag_run.conf of each run: a JSON object")
CRON = arg("--cron", metavar="CRON", help="The cron that starts it: five fields, or six with the seconds first")
TZ = arg("--tz", default="UTC", metavar="ZONE", help="The IANA zone of the cron (default: UTC)")
PRESERVATION = arg(
    "--preservation", choices=PRESERVATIONS, metavar="WORD",
    help="Whether its runs keep their interim tables, unless a task sets it: NONE or FULL",
)  # fmt: skip
RUN_ENABLED = arg(
    "--enabled", action=BooleanOptionalAction, default=None,
    help="Whether its cron starts runs; the default keeps the current value, and enables a new one",
)  # fmt: skip
DESCRIPTION = arg("--description", default="", metavar="TEXT", help="For people")
ENABLED_RUNS = arg("--enabled", action=BooleanOptionalAction, default=None, help="Only enabled ones, or only disabled ones")
RUNS_OF_DAG = arg("--dag", metavar="DAG_ID", help="Only registered runs of this DAG")
SEARCH_RUNS = arg("--search", metavar="TEXT", help="Only those with this in their name or their DAG's id")
ONE_CONF = arg("--conf", metavar="JSON", help="Values of this run, which override the registered ones key by key: a JSON object")
ONE_PRESERVATION = arg(
    "--preservation", choices=PRESERVATIONS, metavar="WORD",
    help="Whether this run keeps its interim tables, unless a task sets it: NONE or FULL",
)  # fmt: skip

# builds
DATASET = arg("dataset", metavar="DATASET", help="The dataset's name")
RUN = arg("run", metavar="RUN", help="A run's id, such as 20260425T000000Z")
ANY_RUN = arg("run", metavar="RUN", nargs="?", help="A run's id, to see its shards; without one, the dataset and its runs")
VERIFIED_RUN = arg("run", metavar="RUN", nargs="?", help="A published run's id; the default is the current run")
VERIFY = arg(
    "--verify", choices=("sizes", "checksums"), default="sizes",
    help="checksums: read each shard's file before the run becomes current; the default checks its size",
)  # fmt: skip
CURSOR_OF_BUILD = cursor("--before", "--after-shard")
TO = arg(
    "--to", required=True, metavar="BUILD",
    help="A run's id, a manifest's path, or -1 for the published build before the current one (write --to=-1)",
)  # fmt: skip
KEEP_RUNS = arg("--keep-runs", type=_count, default=7, metavar="N", help="Published runs that are kept (default: 7)")
STALE_AGE = arg(
    "--stale-attempt-age", default="1d", metavar="PERIOD",
    help="The age from which a run without a lease counts as dead (default: 1d)",
)  # fmt: skip
PLAN_CLEANUP = arg("-n", "--dry-run", action="store_true", help="Only report what would be deleted")
STORAGE_CONN_ID = conn_id("storage", "the storage of builds", "builds_conn_id", "the machine's own identity")

# interim tables
INTERIM_TABLE = arg("interim_table", metavar="TABLE", help="The table's id, or its whole name with the catalog")
INTERIM_TABLES = arg("interim_tables", metavar="TABLE", nargs="+", help="Tables' ids, or their whole names with the catalog")
FORGET = arg(
    "--forget", action="store_true",
    help="Remove tables from the records that no collector could drop, for a deleted catalog; nothing else is changed",
)  # fmt: skip
MADE_BY_DAG = arg("--dag", metavar="DAG_ID", help="Only tables of this DAG's runs")
MADE_BY_RUN = arg("--run-id", metavar="RUN_ID", help="Only tables of DAG runs with this id")
INTERIM_STATE = state(INTERIM_STATES, "tables")
PLAN_DROPS = arg("-n", "--dry-run", action="store_true", help="Only report what would be dropped")
OLDER_THAN = arg(
    "--older-than", metavar="PERIOD",
    help="The minimum age, such as 2d; the default is the setting interim_sweep_after",
)  # fmt: skip

# images
IMAGE_KEY = arg("key", metavar="KEY", help="An image's key, or at least its first 8 characters")
IMAGE_KEYS = arg("keys", metavar="KEY", nargs="+", help="Images' keys, or at least the first 8 characters of each")
IMAGE_STATE = state(IMAGE_STATES, "images")
IMAGE_LOG = arg("--log", action="store_true", help="Print the build log of the latest attempt that ended")
REMOTE = arg("remote", metavar="REMOTE", help="The Git repository: an https://, ssh:// or file:/// URL, or git@host:path")
REVISION = arg("--revision", default="main", metavar="REVISION", help="A branch, a tag or a full commit hash (default: main)")
DOCKERFILE = arg("--dockerfile", default="Dockerfile", metavar="PATH", help="Its path in the repository (default: Dockerfile)")
BUILD_ARG = arg(
    "--build-arg", action="append", metavar="NAME=VALUE", help="The value of an ARG of the Dockerfile; may be repeated"
)
IMAGE_TIMEOUT = arg(
    "--timeout", metavar="PERIOD",
    help="Wait for another process no longer than this (30s, 5m, 2h), then end with exit code 124",
)  # fmt: skip

# fleet
PASS = arg("fleet_pass", metavar="PASS", help="A pass's id, or at least its first 8 characters")
GB_HOURS = arg(
    "--gb-hours", type=float, metavar="N", help="GB of Spark's memory times hours at most; a job that would use more is stopped"
)
FLEET_BYTES = arg("--bytes", metavar="SIZE", help="Bytes rewritten at most, by estimate, such as '500 GiB'")
FLEET_TABLES = arg("--tables", type=_count, metavar="N", help="How many tables at most")
FLEET_TIME = arg("--time", metavar="PERIOD", help="How long the pass may take, such as 4h; a job that still runs then is stopped")

# removals
REMOVAL = arg("removal", metavar="REMOVAL", help="A removal's id, or at least its first 8 characters")
REMOVAL_STATE = state(REMOVAL_STATES, "removals")
REMOVALS_OF = arg("-t", "--table", metavar="DATABASE.TABLE", help="Only removals of this table")
RESTORED = arg("removal", metavar="REMOVAL", nargs="?", help="A removal's id, or at least its first 8 characters")
RESTORED_TABLE = arg("-t", "--table", metavar="DATABASE.TABLE", help="All files of this table, instead of those of one removal")
RESTORED_FILES = arg("--file", metavar="PATH", action="append", help="Only this file; repeat it for several")
ITEMS = arg("--items", action="store_true", help="Print the list itself: its files or snapshots, with the outcome of each")
CURSOR_OF_ITEMS = cursor("--start", type=int)
COMMENT = arg("--comment", metavar="TEXT", help="For the record")

# the store
PRUNED_AGE = arg(
    "--older-than", metavar="PERIOD", required=True,
    help="The minimum age, such as 180d; at least a week, 90 days for schedules and a year for the audit trail",
)  # fmt: skip
PLAN_PRUNE = arg("-n", "--dry-run", action="store_true", help="Only count what would be deleted")

# lineage
LINEAGE_OF = arg("table", metavar="TABLE", help="DATABASE.TABLE, with or without its catalog; or a dataset's name or url")
UP = arg("--up", action="store_true", help="Only upstream tables")
DOWN = arg("--down", action="store_true", help="Only downstream tables")
BOTH = arg("--both", action="store_true", help="Both, which is the default")
DEPTH = arg("--depth", type=_count, default=5, metavar="N", help="How many steps from the table (default: 5)")

# worker
ONCE = arg("--once", action="store_true", help="Run one job and exit; exit at once when none waits")
MAX_JOBS = arg("--max-jobs", type=_count, metavar="N", help="Exit after this many jobs")
WORKER_POLL = arg("--poll", metavar="PERIOD", default="5s", help="How long to wait when the queue is empty (default: 5s)")
SCHEDULER_POLL = arg(
    "--poll", metavar="PERIOD", default="1s", help="The pause after a round that had nothing to do (default: 1s)"
)
WORKER_ID = arg("--worker-id", metavar="NAME", help="The worker's name in its claims (default: host:process)")

# api
HOST = arg("--host", metavar="ADDRESS", help="The address to listen on; the default is the setting api_host (127.0.0.1)")
PORT = arg("--port", type=port, metavar="PORT", help="The port; the default is the setting api_port (8085)")
TOKEN_FILE = arg("--token-file", metavar="FILE", help="The file with the token, such as a mounted secret")
