"""The engine that runs a job's actions on Spark.

    >>> engine = SparkEngine(lambda: local_session(config), catalog.load)
    >>> engine.run(job, "rewrite_data_files").message
    'Compacted 87 files into 12'
    >>> engine.interrupt()                      # from another thread: run() ends with the outcome "interrupted"

The invariant: every failure of an action becomes a result with what reached the table; only the lack of Spark is raised. An
action that has nothing to do by the table's metadata is skipped without a session. An action costs no more than its bare
``CALL``, because everything beyond the procedure's numbers is read from the table's metadata.

A process may run one engine at a time, because commits are stamped through the JVM (see :mod:`.commits`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.iceberg import FootprintMemory, MetadataReader, TableName, load_table
from airflow_snowpack.iceberg.errors import TableNotFound
from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, Job
from airflow_snowpack.maintenance.action import parse_actions
from airflow_snowpack.maintenance.action_run import ActionEffect, ActionRun, ChangeWatch, PlanningContext
from airflow_snowpack.maintenance.commits import is_conflict, is_refused
from airflow_snowpack.maintenance.errors import InvalidOption, OtherTableInSpark
from airflow_snowpack.maintenance.options import ActionOptions, parse_options, refused
from airflow_snowpack.maintenance.plan import forbidden
from airflow_snowpack.maintenance.removals.model import RemovalState
from airflow_snowpack.maintenance.removals.of_job import JobRemovals
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.same_table import check_same_table
from airflow_snowpack.maintenance.table_defaults import forbidden_reason, options_for
from airflow_snowpack.spark import (
    SessionStatements,
    SparkFailed,
    SparkInterrupted,
    SparkUnavailable,
    SparkWork,
    spark_errors,
    translate,
    without_substitution,
)
from airflow_snowpack.spark.memory import session_gb

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_snowpack.spark import SparkServer, Statements

log = logging.getLogger(__name__)

TRIES = 3
NOTHING_DONE = "Failed before anything was done"


class SparkEngine:
    """Runs actions on Spark, one at a time.

    :param session: returns the session, such as ``lambda: local_session(config)``; called before each action, to replace a dead
        JVM. Or a Spark server, where each attempt at a job gets a session that another process can find by the job.
    :param catalog: connects to the same catalog with PyIceberg, such as ``CatalogConfig.load``; called once.
    :param footprints: returns the stored locations of the files of a catalog's tables, such as
        ``partial(stored_footprints, store)``. Without them, deleting files of one table loads all others.
    :param removals: the store of removal lists, such as ``installation.removals``. Without it, ``remove_orphan_files`` and
        ``expire_snapshots`` fail.
    :param tries: how often a rewrite is tried when commits of other writers win.
    :param now: the clock from which ages of snapshots and files are measured.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession] | SparkServer,
        catalog: Callable[[], Catalog],
        *,
        footprints: Callable[[TableName], FootprintMemory | None] = lambda _: None,
        removals: Removals | None = None,
        tries: int = TRIES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._session = session
        self._connect = catalog
        self._reader: MetadataReader | None = None
        self._table_uuid: str | None = None  # of the table of the first action
        self._is_same_table = False  # of the first action, and that of Spark
        self._footprints = footprints
        self._removals = removals
        self._tries = tries
        self._now = now
        self._work = SparkWork()
        self._gb_hours: float | None = None
        self._measuring: tuple[float | None, float] | None = None  # the memory of the session, and since when it works

    @property
    def gb_hours(self) -> float | None:
        """GB·h of the running action so far, without the start of the session; 0 while none runs."""
        memory, started = self._measuring or (0.0, 0.0)
        return None if memory is None else memory * (time.monotonic() - started) / 3600

    @property
    def server(self) -> str | None:
        """The name of the Spark server, which continues a statement when this process is killed."""
        return None if callable(self._session) else self._session.name

    def run(self, job: Job, action: str) -> ActionResult:
        """Run one action of the job and return its result.

        :raises SparkUnavailable: there is no Spark to run it on.
        :raises UnknownAction, InvalidOption: the job has an action or option that cannot be run.
        """
        (which,) = parse_actions([action])
        options = parse_options(which, job.options.get(which, {}))
        started, watch = time.monotonic(), ChangeWatch()
        self._gb_hours = None
        effect = self._effect(job, which, options, watch)
        if self._work.lost:
            self._work.interrupt()  # a statement may still run, beside which no other action may start
        if effect.outcome in (ActionOutcome.FAILED, ActionOutcome.CONFLICT):
            effect = self._explain_failure(job, effect)
        result = effect.result(which, round(time.monotonic() - started, 3))
        result = replace(result, change=watch.change(effect), gb_hours=self._gb_hours)
        log.info("%s on %s: %s (%s, %.1f s)", which, job.table, result.message, result.outcome, result.elapsed_seconds)
        if result.error:
            log.warning("%s on %s: %s", which, job.table, result.error)
        return result

    def interrupt(self) -> None:
        """Stop the running action, and start no more. Returns at once, and is safe in a signal handler."""
        self._work.interrupt()

    def _effect(self, job: Job, action: str, options: ActionOptions, watch: ChangeWatch) -> ActionEffect:
        read = cache(lambda: self._metadata(job.table))
        ended = None if self._work.interrupted else self._refuse_replaced(job, read) or self._without_spark(job, options)
        if ended is None and options.only_if_needed and not self._work.interrupted and not self._resumes_removal(job):
            ended = self._nothing_to_do(job, action, options, read)
        if self._work.interrupted:
            return ActionEffect(ActionOutcome.INTERRUPTED, "Interrupted before it began", error=str(SparkInterrupted()))
        if ended is not None:
            return ended
        calls_before = self._work.calls
        try:
            with self._session_for(job) as statements:
                run = self._action_run(job, action, statements)
                if (other := self._refuse_other_table(run)) is not None:
                    return other
                table = watch.begin(run, getattr(options, "branch", None))
                options, reason = _effective_options(job, action, table)
                # The removal refuses a list whose deletion an earlier attempt has begun, so that its state shows the refusal.
                if reason is not None and not self._resumes_removal(job):
                    return forbidden(reason)
                with self._measured(statements), self._configured(statements, options):
                    try:
                        return options.run(run)
                    except SparkFailed as failure:
                        return _failed(run, failure)
        except SparkInterrupted as stop:
            return ActionEffect(ActionOutcome.INTERRUPTED, "Interrupted", error=str(stop))
        except SparkUnavailable:
            raise
        except spark_errors() as error:
            return self._failed_early(translate(error), calls_before)
        except SnowpackError as error:
            return self._failed_early(error, calls_before)

    @contextmanager
    def _measured(self, statements: Statements) -> Iterator[None]:
        """Measure the session's memory and time inside the block."""
        self._measuring = session_gb(statements), time.monotonic()
        try:
            yield
        finally:
            self._gb_hours, self._measuring = self.gb_hours, None

    @contextmanager
    def _configured(self, statements: Statements, options: ActionOptions) -> Iterator[None]:
        """Give the session the action's settings inside the block.

        :raises InvalidOption: Spark refuses one.
        """
        conf = ExitStack()
        try:
            _translating(lambda: conf.enter_context(statements.with_settings(dict(options.spark_conf))))
        except SparkFailed as error:
            raise refused(options, "spark_conf", f"is refused by Spark: {error}") from error
        try:
            yield
        except BaseException as error:
            if isinstance(error, Exception):  # see with_settings
                _restore(conf)
            raise
        _restore(conf)

    def _refuse_replaced(self, job: Job, read: Callable[[], MetadataReader]) -> ActionEffect | None:
        """Return the end of an action whose table was dropped and created again; ``None`` for any other.

        A job submitted without its table's uuid is bound to the table of its first action.
        """
        wanted = job.table_uuid or (job.plan or {}).get("table_uuid") or self._table_uuid
        if wanted is None:
            return None
        try:
            found = str(read().table.metadata.table_uuid)
        except SnowpackError:
            return None  # the action reports why the table cannot be loaded
        if found == wanted:
            return None
        error = (
            f"The job is for another table of this name: {job.table.dotted} was dropped and created again since the job was "
            "submitted. Submit it again."
        )
        return ActionEffect(ActionOutcome.FAILED, NOTHING_DONE, error=error, final=True)

    def _refuse_other_table(self, run: ActionRun) -> ActionEffect | None:
        """Return the end of an action for which Spark has another table, or none; ``None`` for any other."""
        if self._is_same_table:
            return None
        try:
            check_same_table(run)
        except (OtherTableInSpark, SparkFailed) as error:
            return ActionEffect(
                ActionOutcome.FAILED,
                NOTHING_DONE,
                error=str(run.explained(error) if isinstance(error, SparkFailed) else error),
                final=isinstance(error, OtherTableInSpark),
            )
        self._is_same_table = True
        return None

    def _explain_failure(self, job: Job, failed: ActionEffect) -> ActionEffect:
        """Return the failure, or that the table was dropped and created again while the action ran."""
        refused = self._refuse_replaced(job, lambda: self._metadata(job.table))
        if refused is None or refused.error == failed.error:
            return failed
        return replace(
            failed,
            outcome=refused.outcome,
            message=f"{failed.message} while its table was replaced",
            error=refused.error,
            final=True,
        )

    def _nothing_to_do(
        self, job: Job, action: str, options: ActionOptions, read: Callable[[], MetadataReader]
    ) -> ActionEffect | None:
        """Return the end of an action that has nothing to do, or no table; ``None`` if Spark has to run."""
        if getattr(options, "removal_id", None) is not None:
            return None
        try:
            reader = read()
            options, reason = _effective_options(job, action, reader.table)
            if reason is not None:
                return forbidden(reason)
            return options.nothing_to_do(PlanningContext(reader, self._catalog, self._now()))
        except (TableNotFound, InvalidOption) as problem:
            return self._failed_early(problem, self._work.calls)
        except Exception as problem:  # noqa: BLE001 - whatever the planner cannot read, Spark may; if not, its error is the result
            log.warning("plan_failed: Spark runs %s on %s without a plan: %s", action, job.table, problem)
            return None

    def _without_spark(self, job: Job, options: ActionOptions) -> ActionEffect | None:
        """Return the end of an action that needs neither Spark nor the table, such as a restore of files."""
        try:
            return options.without_spark(self._removals_of(job), lambda: self._catalog, lambda: self._work.interrupted)
        except SnowpackError as error:
            return ActionEffect(ActionOutcome.FAILED, NOTHING_DONE, error=str(error), final=error.kind is Kind.REFUSED)

    def _resumes_removal(self, job: Job) -> bool:
        """Return whether an earlier attempt at the job began to delete a list, without recording the result of each item."""
        if self._removals is None or job.attempt < 2:
            return False
        return any(removal.state is RemovalState.DELETING for removal in self._removals.planned_by(job.job_id))

    def _metadata(self, name: TableName) -> MetadataReader:
        """Return a reader of the current table; the actions of a job share it while the table does not change."""
        table = load_table(self._catalog, name)
        self._table_uuid = self._table_uuid or str(table.metadata.table_uuid)
        if self._reader is None or self._reader.table.metadata_location != table.metadata_location:
            self._reader = MetadataReader(table)
        return self._reader

    @cached_property
    def _catalog(self) -> Catalog:
        return self._connect()

    def _removals_of(self, job: Job) -> JobRemovals | None:
        return None if self._removals is None else JobRemovals(self._removals, job)

    def _action_run(self, job: Job, action: str, statements: Statements) -> ActionRun:
        return ActionRun(
            job.job_id,
            job.table,
            action,
            statements,
            self._work,
            self._catalog,
            self._now(),
            self._tries,
            footprints=self._footprints(job.table),
            removals=self._removals_of(job),
            reader=self._reader,
            attempt=job.attempt,
        )

    def _failed_early(self, error: SnowpackError, calls_before: int) -> ActionEffect:
        """Return the effect of an action that failed before it could report what reached the table."""
        if self._work.calls == calls_before:
            message = NOTHING_DONE
        elif isinstance(error, TableNotFound):
            message = "The table was dropped while the action ran"
        else:
            message = "Failed while the action ran; what it had committed is not known"
        return ActionEffect(ActionOutcome.FAILED, message, error=str(error), final=isinstance(error, InvalidOption))

    def _session_for(self, job: Job) -> AbstractContextManager[Statements]:
        if callable(self._session):
            return nullcontext(SessionStatements(without_substitution(self._session())))
        return self._session.opened(job.job_id, job.attempt)


def _restore(conf: ExitStack) -> None:
    try:
        _translating(conf.close)
    except SparkFailed as error:  # the session is gone, and its settings with it
        log.warning("settings_not_restored: %s", error)


def _translating(call: Callable[[], object]) -> None:
    """:raises SparkFailed: Spark failed in the call."""
    try:
        call()
    except spark_errors() as error:
        raise translate(error) from error


def _effective_options(job: Job, action: str, table: Table) -> tuple[ActionOptions, str | None]:
    """Return the options of an action with those of the table's properties, and why these forbid the action."""
    properties = owner_properties(table)
    options = options_for(action, job.options.get(action, {}), properties, by_plan=job.plan is not None)
    return options, forbidden_reason(options, properties)


def _failed(run: ActionRun, failure: SparkFailed) -> ActionEffect:
    if is_conflict(failure):
        return ActionEffect(ActionOutcome.CONFLICT, "Lost to a concurrent writer", error=str(failure))
    return ActionEffect(ActionOutcome.FAILED, "Failed", error=str(run.explained(failure)), final=is_refused(failure))
