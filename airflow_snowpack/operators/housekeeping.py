"""Background work as scheduled tasks: sweep jobs, prune the store, collect interim tables, and record signs of life."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.arguments import UnreadableArgument, read_flag, read_period, read_text
from airflow_snowpack.operators.base import UsesCatalog, UsesStore, owner_of, refusals_are_final, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.interim.collection.model import Collected
    from airflow_snowpack.interim.collection.sweeper import SweepAction
    from airflow_snowpack.interim.model import InterimTable
    from airflow_snowpack.store import Store
    from airflow_snowpack.store.signs_of_life import Role, SignOfLife


UNKNOWN_PERIOD = timedelta(minutes=5)
"""The period of a DAG without a cron or an interval."""
MAX_LISTED = 50
"""How many tables of each kind the XCom lists."""


class SweepOperator(UsesStore):
    """Sweeps once: requeues jobs whose lease expired, fails those without attempts left, and releases locks of ended jobs.

    It cancels the jobs of tasks that Airflow ended while they waited in the triggerer, and ends the passes and releases the table
    locks of DAG runs that have ended. It removes the pods, and the containers of this host, that ended tasks have left, and
    exchange folders on this worker that no task has used for a day. Schedule it every few minutes.

    :param store_conn_id: the Airflow connection of the store; ``None`` for the installation's.

    Returns ``requeued``, ``failed`` and ``cancelled`` job ids, ``unlocked`` tables, and ``paused`` while drain mode is on.
    """

    template_fields: Sequence[str] = ("store_conn_id",)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.hooks.ended_tasks import sweep
        from airflow_snowpack.hooks.run_states import TaskRunStates
        from airflow_snowpack.operators.entries.left_running import remove_left_running
        from airflow_snowpack.runners import Exchanges
        from airflow_snowpack.store.signs_of_life import Role

        with self.installation() as hook:
            report = sweep(hook.installation, TaskRunStates())
            sign_of_task(hook.store(), Role.SWEEPER, context).beat()
            for folder in Exchanges(hook.settings.runner_folder).sweep():
                self.log.info("Removed the exchange folder %s, which a killed task has left", folder)
            if not report.paused:  # last, since Airflow, the daemon or the cluster may not answer
                remove_left_running(hook.settings.runner_folder, hook.store().identity, TaskRunStates())
        if report.paused:
            self.log.info("Drain mode is on: nothing was swept")
        return {
            "requeued": list(report.requeued),
            "failed": list(report.failed),
            "cancelled": list(report.cancelled),
            "unlocked": list(report.unlocked),
            "paused": report.paused,
        }


class PruneStoreOperator(UsesStore):
    """Deletes rows of the store that are old and no longer needed: jobs, histories, records of builds, events and lineage.

    Schedule it once a day. A task that was killed leaves nothing half deleted; the next one continues.

    :param older_than: the age, a ``timedelta`` or text such as ``180d``; at least a week.
    :param dry_run: count what would be deleted.
    :param store_conn_id: the Airflow connection of the store; ``None`` for the installation's.

    Returns how many rows were deleted, by table.
    """

    template_fields: Sequence[str] = ("older_than", "dry_run", "store_conn_id")

    def __init__(self, *, older_than: timedelta | str, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.older_than = older_than
        self.dry_run = dry_run  # type: ignore[assignment, method-assign]  # BaseOperator has a debugging method of this name

    def execute(self, context: Context) -> dict[str, int]:
        from airflow_snowpack.humanize import duration
        from airflow_snowpack.store import Actor

        with refusals_are_final():
            older_than, dry_run = read_period("older_than", self.older_than), read_flag("dry_run", self.dry_run)
            with self.installation() as hook:
                rows = hook.installation.prune(older_than, Actor(owner_of(context), "task"), dry_run=dry_run)
        self.log.info(
            "%s %s rows that are older than %s", "Would delete" if dry_run else "Deleted", rows.total(), duration(older_than)
        )
        return dict(rows)


class CollectInterimTablesOperator(UsesCatalog):
    """Drops interim tables that no task needs any more, then sweeps tables and files without a record.

    Schedule it every few minutes. It reads the states of runs and tasks from Airflow with the task's identity. A table that
    cannot be dropped is reported, and the next run retries it.

    :param sweep: also drop tables and files that are named like interim tables and have no record.
    :param sweep_after: the age from which these are dropped, such as ``2d``, or a ``timedelta``; ``None``: ``[snowpack]
        interim_sweep_after``.
    :param dry_run: report what would be dropped.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.

    Returns what was dropped, what could not be dropped, what is kept, and what was swept; at most fifty of each.
    """

    template_fields: Sequence[str] = ("sweep", "sweep_after", "dry_run", "store_conn_id", "catalog_conn_id")
    ui_color = "#f2ecdf"

    def __init__(
        self,
        *,
        sweep: bool | str = True,
        sweep_after: timedelta | str | None = None,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sweep = sweep
        self.sweep_after = sweep_after
        self.dry_run = dry_run  # type: ignore[assignment, method-assign]  # BaseOperator has a debugging method of this name

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.hooks.run_states import TaskRunStates
        from airflow_snowpack.hooks.services import open_collector
        from airflow_snowpack.store.signs_of_life import Role

        with self.installation() as hook:
            dry_run, catalog_hook = read_flag("dry_run", self.dry_run), self.catalog_hook()
            sweep_after = self._sweep_after(hook)
            sign = None if dry_run else sign_of_task(hook.store(), Role.COLLECTOR, context)
            collector = open_collector(hook, TaskRunStates(), catalog_hook, holder=worker_of(context), sign=sign)
            collected = collector.run(dry_run=dry_run)
            self._log(collected, dry_run=dry_run)
            swept, not_swept = self._sweep(hook, catalog_hook, sweep_after, dry_run=dry_run)
            stays, now = hook.interim().tables(limit=MAX_LISTED), hook.store().clock()
        report = collection_report(collected, stays, swept, now=now, dry_run=dry_run, not_swept=not_swept)
        for each in report["stays"]:
            self.log.info("%s is kept: %s", each["table"], each["reason"])
        return report

    def _sweep_after(self, hook: SnowpackHook) -> timedelta | None:
        """Return the age from which tables are swept; ``None`` for no sweep."""
        if not read_flag("sweep", self.sweep):
            return None
        if read_text(self.sweep_after) is None:
            return hook.settings.interim_sweep_after
        period = read_period("sweep_after", self.sweep_after)
        if period.total_seconds() <= 0:
            raise UnreadableArgument("sweep_after", self.sweep_after, "a positive duration such as 1d")
        return period

    def _sweep(
        self, hook: SnowpackHook, catalog_hook: IcebergCatalogHook, older_than: timedelta | None, *, dry_run: bool
    ) -> tuple[list[SweepAction], str | None]:
        """Return what was swept, and why a sweep was refused."""
        from airflow_snowpack.interim.collection.sweeper import sweep
        from airflow_snowpack.interim.errors import ForeignNamespace

        if older_than is None:
            return [], None
        name = catalog_hook.settings.catalog_name
        try:
            swept = sweep(hook.interim(), catalog_hook.catalog, name, older_than=older_than, dry_run=dry_run)
        except ForeignNamespace as refused:  # tables on record in this store were collected before
            self.log.error("Nothing was swept: %s", refused)
            return [], str(refused)
        done = "would be swept" if dry_run else "was swept"
        for action in swept:
            since = action.since.isoformat(timespec="seconds")
            if action.error is None:
                self.log.info("The %s %s without a record, last written at %s, %s", action.kind, action.name, since, done)
            else:
                self.log.warning("The %s %s without a record could not be swept: %s", action.kind, action.name, action.error)
        return swept, None

    def _log(self, collected: Collected, *, dry_run: bool) -> None:
        for doomed in collected.dropped if dry_run else ():  # the collector has logged what it dropped
            self.log.info("%s, written by %s, would be dropped: no task needs it any more", doomed.table, doomed.producer)
        for each in collected.failed:
            self.log.warning("%s could not be dropped and will be tried again: %s", each.table.table, each.reason)
        self.log.info(
            "Checked %s DAG runs. Interim tables: %s %s, %s failed, %s kept",
            collected.runs,
            len(collected.dropped),
            "would be dropped" if dry_run else "dropped",
            len(collected.failed),
            collected.kept,
        )


def collection_report(
    collected: Collected,
    stays: Iterable[InterimTable],
    swept: Sequence[SweepAction],
    *,
    now: datetime,
    dry_run: bool,
    not_swept: str | None = None,
) -> dict[str, Any]:
    """Return the XCom of a collection: what was dropped (in a dry run: would be), what failed, what is kept, what was swept.

    :param stays: the tables on record afterwards, newest first.
    :param not_swept: why the sweep was refused.
    """
    from airflow_snowpack.interim.explanation import Outlook, explain

    explained = [(table, explain(table, now)) for table in stays]
    left = [(table, explanation) for table, explanation in explained if explanation.outlook is Outlook.STAYS]
    failed = [action for action in swept if action.error is not None]
    again = collected.next_check_at
    return {
        "dry_run": dry_run,
        "runs": collected.runs,
        "dropped": [_dropped(each) for each in collected.dropped[:MAX_LISTED]],
        "dropped_count": len(collected.dropped),
        "failed": [{"table": str(each.table.table), "error": each.reason} for each in collected.failed[:MAX_LISTED]],
        "failed_count": len(collected.failed) + len(failed),
        "missing": [{"table": str(each.table.table), "why": each.reason} for each in collected.missing[:MAX_LISTED]],
        "stays": [{"table": str(table.table), "reason": str(explanation.sentence)} for table, explanation in left[:MAX_LISTED]],
        "next_check_at": None if again is None else again.isoformat(),
        "swept": [_swept(action) for action in swept[:MAX_LISTED]],
        "swept_count": len(swept) - len(failed),
        "not_swept": not_swept,
    }


def _dropped(table: Any) -> dict[str, Any]:
    return {"table": str(table.table), "rows": table.rows, "made_by": str(table.producer)}


def _swept(action: SweepAction) -> dict[str, Any]:
    return {
        "kind": action.kind.value,
        "name": action.name,
        "location": action.location,
        "last_written": action.since.isoformat(),
        "error": action.error,
    }


def sign_of_task(store: Store, role: Role, context: Context, period: timedelta | None = None) -> SignOfLife:
    """Return the sign of life of this task, the same in each run of its DAG; ``period`` is by default the DAG's schedule."""
    from airflow_snowpack.store.signs_of_life import SignOfLife

    instance = context["ti"]
    if period is None:
        period = period_of(getattr(context.get("dag"), "timetable", None), store.clock())
    return SignOfLife(store, role, f"{instance.dag_id}.{instance.task_id}", period=period, detail={"dag": instance.dag_id})


def period_of(timetable: Any, now: datetime) -> timedelta:
    """Return the longest time between two of the next runs."""
    from airflow.utils.dates import cron_presets

    from airflow_snowpack.scheduling.cron import next_tick

    # Airflow 3.1 has them as private attributes.
    names = "delta", "expression", "timezone"
    delta, expression, zone = (getattr(timetable, name, getattr(timetable, f"_{name}", None)) for name in names)
    if isinstance(delta, timedelta):
        return delta
    if not isinstance(expression, str) or zone is None:
        return UNKNOWN_PERIOD
    expression = cron_presets.get(expression, expression)
    try:
        first = next_tick(expression, zone, now)
        second = next_tick(expression, zone, first)
    except Exception:  # noqa: BLE001 - Airflow knows expressions and zones that Snowpack does not; the sign is sent all the same
        return UNKNOWN_PERIOD
    return max(first - now, second - first)
