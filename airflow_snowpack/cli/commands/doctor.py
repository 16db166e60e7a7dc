"""``airflow snowpack doctor``: what is wrong with this installation, as this process sees it, and what to do about it.

Run it in each environment: the API server's, the scheduler's, a worker's. It ends with 1 when something is wrong; a warning is
printed and ends with 0.

The invariant: whatever a check raises becomes a finding, and no finding holds a secret. Nothing is changed, apart from a file in
the warehouse that is written and deleted again.
"""

from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property

from airflow_snowpack.api.roles import OTHER_DAGS, TO_START, missing_dags, read_roles
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, log_to_stderr, print_list
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.hooks.build_storage import has_default_builds
from airflow_snowpack.hooks.connections import TEST_TIMEOUT, message_of, read_connection, remote_executors
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook, count_databases
from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
from airflow_snowpack.hooks.services import catalog_facts, dag_states
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg import CatalogKind
from airflow_snowpack.iceberg.catalog import SEVERAL
from airflow_snowpack.iceberg.errors import catalog_label
from airflow_snowpack.iceberg.trial_file import trial_file, warehouse_of
from airflow_snowpack.notifications.records import Notifications
from airflow_snowpack.redaction import public_address, redacted
from airflow_snowpack.scheduling.sources.source import read_unreadable
from airflow_snowpack.spark import Statements
from airflow_snowpack.store import Store
from airflow_snowpack.store.schema import REVISION
from airflow_snowpack.store.signs_of_life import Role, Sign, read_signs
from airflow_snowpack.timed_calls import call_with_timeout
from airflow_snowpack.wire.listing import Column, Listing

MOST_SKEW = timedelta(seconds=5)
SWEEP_OVERDUE = timedelta(hours=1)
MOST_DATASETS = 1_000
PLUGIN = "snowpack"


class CheckVerdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found.

    :param to_do: what to do about it; empty when there is nothing to do.
    :param check: the name of the check; :func:`diagnose` fills it in.
    """

    verdict: CheckVerdict
    message: str
    to_do: str = ""
    check: str = ""


@dataclass
class Examined:
    """The installation as this process sees it; what cannot be opened raises where it is first used."""

    store_conn_id: str | None = None
    catalog_conn_id: str | None = None
    spark_conn_id: str | None = None
    start_spark: bool = True

    @cached_property
    def store_hook(self) -> SnowpackHook:
        return SnowpackHook(self.store_conn_id)

    @cached_property
    def catalog(self) -> IcebergCatalogHook:
        return IcebergCatalogHook(self.catalog_conn_id)

    @cached_property
    def spark(self) -> IcebergSparkHook:
        return IcebergSparkHook(self.spark_conn_id, self.catalog_conn_id)

    @cached_property
    def store(self) -> Store:
        """The store, once its schema was found to be right."""
        return self.store_hook.store()

    def close(self) -> None:
        self.store_hook.close()


FINDINGS: Listing[CheckResult] = Listing(
    "findings",
    lambda finding: {
        "check": finding.check,
        "verdict": finding.verdict.value,
        "message": finding.message,
        "to_do": finding.to_do,
    },
    (Column("check", "check"), Column("verdict", "verdict"), Column("message", "message")),
)


@ends_cleanly
def examine(args: Namespace) -> ExitCode | None:
    log_to_stderr()
    examined = Examined(args.store_conn_id, args.catalog_conn_id, args.spark_conn_id, start_spark=not args.no_spark)
    findings = diagnose(examined)
    print_list(args.output, FINDINGS, findings, datetime.now(UTC))
    if is_for_people(args.output):
        for finding in findings:
            if finding.to_do:
                print(f"{finding.check}: {finding.to_do}")
    return ExitCode.REFUSED if any(finding.verdict is CheckVerdict.WRONG for finding in findings) else None


def settings(examined: Examined) -> CheckResult:
    """Every option of ``[snowpack]`` can be read."""
    found = examined.store_hook.settings
    return CheckResult(CheckVerdict.OK, f"[snowpack] can be read; the catalog is called {found.catalog_name!r}.")


def store_place(examined: Examined) -> CheckResult:
    """The store is where every host of the installation reaches it."""
    url, remote = examined.store_hook.url(), remote_executors()
    where = public_address(url.render_as_string(hide_password=True))
    if url.get_backend_name() == "sqlite" and remote:
        advice = "Use a Postgres, unless this file is on storage that every host of the executor mounts."
        return CheckResult(CheckVerdict.WARNING, f"{where} is a file, and {', '.join(remote)} runs tasks elsewhere.", advice)
    hosts = _airflow_hosts()
    if url.get_backend_name() == "sqlite" and len(hosts) > 1:
        advice = "Name a Postgres in [snowpack] store_conn_id, so that they share jobs and locks."
        return CheckResult(CheckVerdict.WRONG, f"{where} is a file, and Airflow runs on {', '.join(hosts)}.", advice)
    return CheckResult(CheckVerdict.OK, f"The store is {where}.")


def local_paths(examined: Examined) -> CheckResult:
    """Every host of the executor reaches the catalog's file, the warehouse and the builds."""
    if not (remote := remote_executors()):
        return CheckResult(CheckVerdict.SKIPPED, "The executor runs every task on this host.")
    settings = examined.store_hook.settings
    places = {} if has_default_builds(settings) else {"[snowpack] builds_url": settings.builds_url}
    with suppress(SnowpackError):  # an embedded catalog is refused, see catalog_answers
        config = examined.catalog.config
        places |= {"the catalog": config.address} if config.kind is CatalogKind.SQLITE else {}
        places |= {"the warehouse": config.warehouse or ""}
    with suppress(SnowpackError):  # see store_schema
        datasets = examined.store_hook.builds().datasets(limit=MOST_DATASETS).items
        places |= {f"the build {each.dataset}": each.url for each in datasets}
    local = {f"{what} ({place})" for what, place in places.items() if place.startswith(("/", "file:"))}
    builds = " Builds without a url are refused until [snowpack] builds_url is set." if has_default_builds(settings) else ""
    entries = f"Each host may have its own [snowpack] runner_folder ({settings.runner_folder}), except for the runner kubernetes."
    if not local:
        return CheckResult(CheckVerdict.OK, f"Hosts share no local path.{builds} {entries}")
    message = f"{', '.join(remote)} runs tasks on other hosts, and these paths are local: {_few(local)}.{builds} {entries}"
    advice = "Use object storage and a Postgres or REST catalog, or mount each path on every host."
    return CheckResult(CheckVerdict.WARNING, message, advice)


def store_schema(examined: Examined) -> CheckResult:
    """The store answers, and its tables are those of this version."""
    return CheckResult(CheckVerdict.OK, f"The store {examined.store.identity} answers, at revision {REVISION}.")


def clock_skew(examined: Examined) -> CheckResult:
    """This host's clock and the database's agree: leases and schedules are measured by the hosts' clocks."""
    store = examined.store
    if not store.is_postgres:
        return CheckResult(CheckVerdict.SKIPPED, "The store is a file, so there is no other clock.")
    before = datetime.now(UTC)
    theirs = store.read(lambda conn: conn.exec_driver_sql("SELECT clock_timestamp()").scalar_one())
    middle = before + (datetime.now(UTC) - before) / 2
    skew = abs(theirs - middle)
    message = f"This host's clock and the store's differ by {skew.total_seconds():.1f} s."
    if skew > MOST_SKEW:
        return CheckResult(CheckVerdict.WRONG, message, "Synchronise the clocks of all hosts (NTP).")
    return CheckResult(CheckVerdict.OK, message)


def catalog_answers(examined: Examined) -> CheckResult:
    """The catalog's connection exists, and the catalog answers."""
    config = examined.catalog.config
    databases = call_with_timeout(lambda: count_databases(config), "The catalog", TEST_TIMEOUT)
    label = catalog_label(config.name, config.catalog_id)
    return CheckResult(CheckVerdict.OK, f"The {config.kind} catalog {label} answers; databases: {databases}.")


def warehouse_writable(examined: Examined) -> CheckResult:
    """This host can write to the warehouse, read back, and delete."""
    catalog = examined.catalog.catalog
    warehouse = warehouse_of(examined.catalog.config, catalog)
    if warehouse is None:
        return CheckResult(CheckVerdict.SKIPPED, "The catalog itself chooses where tables go.")

    def try_it() -> str:
        with trial_file(catalog, warehouse) as place:
            return place

    call_with_timeout(try_it, "The warehouse", timedelta(seconds=30))
    return CheckResult(CheckVerdict.OK, f"{public_address(warehouse)} can be written and read.")


def spark_installed(examined: Examined) -> CheckResult:
    """Java, PySpark and the jars are there; nothing is started."""
    examined.spark.check()
    return CheckResult(CheckVerdict.OK, "PySpark and Java fit each other, or Spark runs on a server.")


def spark_sees_catalog(examined: Examined) -> CheckResult:
    """Spark lists the same databases in the catalog as PyIceberg, and reads a file that this host writes to the warehouse."""
    if not examined.start_spark:
        return CheckResult(CheckVerdict.SKIPPED, "Spark was not started (--no-spark).")
    with examined.spark.spark.statements() as statements:
        return _compare(examined, statements)


def _compare(examined: Examined, statements: Statements) -> CheckResult:
    name = examined.catalog.config.name
    ours = {".".join(each) for each in examined.catalog.catalog.list_namespaces()}
    theirs = {str(row["namespace"]).replace("`", "") for row in statements.rows(f"SHOW NAMESPACES IN `{name}`")}
    if ours != theirs:
        message = f"In {name!r} Spark sees {_few(theirs)}, and PyIceberg sees {_few(ours)}."
        advice = "Give both the same address: catalog_conn_id here, and spark.sql.catalog.* on a Spark server."
        return CheckResult(CheckVerdict.WRONG, message, advice)
    warehouse = warehouse_of(examined.catalog.config, examined.catalog.catalog)
    # Of other storages Spark may know only what Iceberg reads for it.
    if warehouse is not None and warehouse.startswith("file:"):
        with trial_file(examined.catalog.catalog, warehouse) as place:
            if not statements.rows(f"SELECT * FROM text.`{place.replace('`', '``')}`"):
                raise OSError(f"Spark does not see the file {place} that this host wrote")
    return CheckResult(CheckVerdict.OK, f"Spark and PyIceberg see the same databases: {_few(ours)}.")


def plugin_loaded(examined: Examined) -> CheckResult:
    """Airflow loaded the plugin with the API, the pages and the listener."""
    from airflow import plugins_manager

    errors = [str(text) for source, text in plugins_manager.get_import_errors().items() if PLUGIN in source.lower()]
    loaded = {each["name"] for each in plugins_manager.get_plugin_info(["name"])}
    if PLUGIN not in loaded or errors:
        advice = "Install airflow-snowpack in this environment, and see `airflow plugins` for import errors."
        return CheckResult(CheckVerdict.WRONG, "; ".join(errors) or "Airflow did not load the plugin 'snowpack'.", advice)
    if not examined.store_hook.settings.listen_to_airflow:
        advice = "Set [snowpack] listen_to_airflow to True, unless another process reports the ends of runs."
        return CheckResult(CheckVerdict.WARNING, "The plugin is loaded, and its listener is switched off.", advice)
    return CheckResult(CheckVerdict.OK, "The plugin is loaded, with its listener.")


def airflow_api(examined: Examined) -> CheckResult:
    """The connection to Airflow's REST API exists, where one is configured."""
    conn_id = examined.store_hook.settings.airflow_conn_id
    if conn_id is None:
        return CheckResult(CheckVerdict.SKIPPED, "[snowpack] airflow_conn_id is empty; only processes beside Airflow need it.")
    read_connection(conn_id, "Airflow's REST API")
    return CheckResult(CheckVerdict.OK, f"The connection {conn_id!r} is there.")


def same_catalog(examined: Examined) -> CheckResult:
    """The API, the workers and the scheduler that opened this store reach the same catalog and warehouse as this process."""
    ours = catalog_facts(examined.catalog)
    seen = [each for each in _running(examined.store) if "catalog_id" in each.detail]
    others = [
        f"{each.role} {each.instance} reaches {each.detail.get(what, '').replace(SEVERAL, ', ') or 'no'} as its {word}"
        for each in seen
        for what, word in (("catalog_id", "catalog"), ("warehouse", "warehouse"))
        if ours[what] not in each.detail.get(what, "").split(SEVERAL)
    ]
    if others:
        mine = f"the catalog {ours['catalog_id']} with the warehouse {ours['warehouse']!r}"
        message = f"This process reaches {mine}; {'; '.join(others)}."
        advice = "Give every process the same catalog_conn_id and home. A worker of another catalog on purpose is all right."
        return CheckResult(CheckVerdict.WARNING, message, advice)
    roles = ", ".join(sorted({each.role for each in seen})) or "none"
    return CheckResult(CheckVerdict.OK, f"Every process that works on this store reaches this catalog. Running: {roles}.")


def same_store(examined: Examined) -> CheckResult:
    """An API server works on this store: one that does not has another store."""
    if any(each.role == "api" for each in _running(examined.store)):
        return CheckResult(CheckVerdict.OK, "An API server works on this store.")
    advice = "Open a Snowpack page, and run this again. If it stays, the API server has another store_conn_id or AIRFLOW_HOME."
    return CheckResult(CheckVerdict.WARNING, "No API server works on this store now.", advice)


def background_roles(examined: Examined) -> CheckResult:
    """Workers, sweeper, scheduler, poller and collector run where there is work for them."""
    reports = read_roles(examined.store, dag_states)
    missing = [report for report in reports if report.is_missing]
    if missing:
        advice = " ".join(TO_START[report.role] for report in missing)
        return CheckResult(CheckVerdict.WRONG, " ".join(str(report) for report in missing), advice)
    return CheckResult(CheckVerdict.OK, " ".join(str(report) for report in reports))


def other_dags(examined: Examined) -> CheckResult:
    """Airflow has the DAGs that prune the store, run queued jobs, maintain the fleet and notify, where they are needed."""
    try:
        has_policies = bool(examined.store_hook.policies().rules)
    except SnowpackError:
        has_policies = True  # a file that cannot be used
    has_notifiers = bool(examined.store_hook.settings.notifiers)
    missing = missing_dags(examined.store, dag_states, has_policies=has_policies, has_notifiers=has_notifiers)
    if missing:
        message = f"Airflow has no DAG {', '.join(OTHER_DAGS[name] for name in missing)}."
        line = f"`from airflow_snowpack.dags import {', '.join(missing)}`"
        return CheckResult(CheckVerdict.WARNING, message, f"Add {line} to a DAG file, unless something else does this work.")
    return CheckResult(CheckVerdict.OK, "Airflow lacks no other DAG of the package, as far as this process can read.")


def tables_readable(examined: Examined) -> CheckResult:
    """The tables and other sources that schedules listen to can be read in time."""
    unreadable = read_unreadable(examined.store)
    if unreadable:
        name, why = next(iter(unreadable.items()))
        message = f"{plural(len(unreadable), 'source')} that schedules listen to cannot be read, such as {name}: {why}"
        return CheckResult(CheckVerdict.WRONG, message, "List them with `airflow snowpack schedules check`.")
    return CheckResult(CheckVerdict.OK, "The sources that schedules listen to can be read.")


def notifications_delivered(examined: Examined) -> CheckResult:
    """Receivers accept notifications, and the task that sends them runs."""
    failing, store = Notifications(examined.store).undelivered(), examined.store
    if failing:
        advice = "Fix the receiver. What it has to receive is kept, and sent at the latest an hour later."
        why = "; ".join(f"{each.receiver}, {each.attempts} attempts: {each.problem or 'killed'}" for each in failing)
        return CheckResult(CheckVerdict.WRONG, f"Notifications are not delivered: {why}", advice)
    signs = [each for each in store.read(read_signs) if each.role == Role.NOTIFIER]
    if signs and not any(each.is_alive(store.clock()) for each in signs):
        message = f"The last notifications were sent at {signs[0].seen_at:%Y-%m-%d %H:%M} UTC."
        return CheckResult(CheckVerdict.WARNING, message, f"Check the latest runs of the DAG {signs[0].detail.get('dag')}.")
    return CheckResult(CheckVerdict.OK, "No receiver refuses notifications.")


def queue_moves(examined: Examined) -> CheckResult:
    """No job waits for a worker or a sweep that is missing."""
    jobs, ours = examined.store_hook.jobs(), examined.catalog.config.catalog_id
    if jobs.drain().on:
        message = "Drain mode is on: new maintenance is refused, and no job is claimed."
        return CheckResult(CheckVerdict.WARNING, message, "airflow snowpack drain off")
    left, state = jobs.waiting_elsewhere(ours), jobs.queue()
    if left:
        message = "; ".join(f"{number} for catalog {each or '(not recorded)'}" for each, number in sorted(left.items()))
        advice = "Start a worker for them: airflow snowpack worker --catalog-conn-id …"
        return CheckResult(CheckVerdict.WARNING, f"Jobs wait for workers of other catalogs: {message}.", advice)
    if state.oldest is not None and jobs.store.clock() - state.oldest > SWEEP_OVERDUE and not state.running:
        message = f"{state.depth} waiting, the oldest since {state.oldest:%Y-%m-%d %H:%M} UTC, and nothing runs."
        return CheckResult(CheckVerdict.WARNING, message, "Start a worker: airflow snowpack worker")
    return CheckResult(CheckVerdict.OK, f"{state.depth} waiting, {state.running} running.")


CHECKS: tuple[Callable[[Examined], CheckResult], ...] = (
    settings, store_place, local_paths, store_schema, clock_skew, catalog_answers, warehouse_writable, spark_installed,
    spark_sees_catalog, plugin_loaded, airflow_api, same_store, same_catalog, background_roles, other_dags,
    notifications_delivered, tables_readable, queue_moves,
)  # fmt: skip


def diagnose(examined: Examined) -> list[CheckResult]:
    try:
        return [_run(check, examined) for check in CHECKS]
    finally:
        with suppress(SnowpackError):
            examined.close()


def _run(check: Callable[[Examined], CheckResult], examined: Examined) -> CheckResult:
    name = check.__name__.replace("_", " ")
    try:
        return replace(check(examined), check=name)
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is what the check was for
        message = redacted(message_of(problem))
        advice = "" if isinstance(problem, SnowpackError) else f"It should hold that: {(check.__doc__ or '').strip()}"
        return CheckResult(CheckVerdict.WRONG, message, advice, name)


def _running(store: Store) -> list[Sign]:
    """The background processes and API servers that work on this store now."""
    return [sign for sign in store.read(read_signs) if sign.is_alive(store.clock())]


def _few(names: set[str]) -> str:
    shown = sorted(names)[:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if shown else "none"


def _airflow_hosts() -> tuple[str, ...]:
    """The hosts whose scheduler, triggerer or DAG processor runs; none where Airflow's database cannot be read from here."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        import sqlalchemy as sa
        from airflow.jobs.job import Job
        from airflow.utils.session import create_session

        with create_session() as session:
            lately = datetime.now(UTC) - timedelta(minutes=5)
            running = sa.select(Job.hostname).where(Job.state == "running", Job.latest_heartbeat > lately)
            return tuple(sorted(set(session.scalars(running))))
    except (ImportError, RuntimeError, SQLAlchemyError):
        return ()
