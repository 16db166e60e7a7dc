"""The loop of actions that rewrite files: run the procedure, check what was committed, and retry if a writer won.

    >>> effect = rewrite(run, RewriteDataFiles())
    >>> effect.message
    'Compacted 87 files into 12'

The invariant: "succeeded" means that no planned work was lost. With partial progress, Iceberg swallows failed commits and returns
as usual; ``failed_data_files_count`` only counts files that could not be written. A strict call fails instead. Calls with a
predicate are strict, because metadata may not show what it selects, and so are repeated calls. After any other call, the table's
history is read. The call is repeated if

- another writer removed files meanwhile,
- Spark worked and nothing was committed, or
- fewer files were rewritten than a plan from the metadata before the call has.

If the metadata shows that a writer left nothing to do, the action ends with that evidence, and Spark is not called again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg import MetadataReader
from airflow_snowpack.iceberg.catalog import refused_commit
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action_run import ActionEffect, ActionRun, PlanningContext
from airflow_snowpack.maintenance.commits import NOT_PERMITTED, Commits, CommitTrail, failed_commits, is_conflict, is_refused
from airflow_snowpack.maintenance.options import ActionOptions, refused
from airflow_snowpack.maintenance.plan import reader_for
from airflow_snowpack.maintenance.planning.commits import commits_of
from airflow_snowpack.maintenance.procedures import ProcedureCall
from airflow_snowpack.spark import SparkFailed, SparkInterrupted

if TYPE_CHECKING:
    from pyiceberg.table import Table

log = logging.getLogger(__name__)

FAILED_FILES = "failed_data_files_count"
TRIES = "tries"
REMOVED_DELETES = "removed-delete-files"
NOT_COMMITTED = "Not all files could be rewritten and committed; see Spark's log at 'Failure during rewrite'."
LOST_TO_WRITER = "A concurrent writer committed changes to files that were being rewritten, so Iceberg refused to replace them."


@dataclass(frozen=True, slots=True)
class RewriteWording:
    """How a rewrite is described.

    :param verb, participle: such as "Rewrote" and "rewritten".
    :param before, after: the result columns that count the files read and written.
    :param summary: for each result column, the key of the same number in a snapshot's summary, for calls that return no row.
    """

    verb: str
    participle: str
    noun: str
    before: str
    after: str
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite(ActionOptions):
    """An action that replaces files with better ones; ``strict_reports_all``: a strict call reports every failed commit."""

    shape: ClassVar[RewriteWording]
    strict_reports_all: ClassVar[bool] = False

    def call(self, table: TableName, *, strict: bool = False) -> ProcedureCall:
        """Return the procedure's statement; a strict one fails when a commit of partial progress failed."""
        raise NotImplementedError

    def run(self, run: ActionRun) -> ActionEffect:
        return rewrite(run, self)


def check_spec(options: Rewrite, option: str, table: Table, name: str) -> None:
    """:raises InvalidOption: the option names a partition spec that the table does not have."""
    spec_id = getattr(options, option)
    if spec_id is not None and spec_id not in table.specs():
        raise refused(options, option, f"names {spec_id}, and {name} has no such partition spec")


@dataclass(frozen=True, slots=True)
class Try:
    """The result of one call.

    :param counts: the numbers of what was committed.
    :param doubt: why work may be missing; ``None`` if it is complete.
    :param outraced: whether another writer is the reason.
    """

    counts: Mapping[str, int]
    doubt: str | None = None
    outraced: bool = False


def rewrite(run: ActionRun, options: Rewrite) -> ActionEffect:
    """Rewrite until nothing is lost or the tries are used up.

    :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog, before anything was done.
    """
    shape = options.shape
    counts: Counter[str] = Counter()
    base = run.table()
    start = run.trail(base, _branch(options))
    tried, outraced = Try({}), False
    for number in range(1, run.tries + 1):
        try:
            tried = _try(run, options, base, strict=number > 1)
        except SparkInterrupted as stop:
            return _stopped(shape, _committed_since(run, start, shape), ActionOutcome.INTERRUPTED, str(stop))
        except SparkFailed as failure:
            return _stopped(
                shape, _committed_since(run, start, shape), ActionOutcome.FAILED, str(run.explained(failure)), is_refused(failure)
            )
        # The next try repeats what the last one could not write.
        counts.pop(FAILED_FILES, None)
        counts.update(tried.counts)
        outraced = outraced or tried.outraced
        if tried.doubt is None:
            break
        log.warning("Try %d of %d of %s on %s: %s", number, run.tries, run.action, run.name, tried.doubt)
        base = run.table()
        # With partial progress, Iceberg does not report why no commit succeeded, and would rewrite all of it again for nothing.
        if not (tried.outraced or counts[shape.before]) and (refusal := refused_commit(base)) is not None:
            return _stopped(shape, counts, ActionOutcome.FAILED, f"{NOT_PERMITTED}: {refusal}", final=True)
        if tried.outraced and number < run.tries and (nothing := _find_nothing_left(run, options, base)) is not None:
            return _end_without_work(shape, counts, nothing)
    if number > 1:
        counts[TRIES] = number
    return _conclude(shape, counts, tried, outraced=outraced)


def _find_nothing_left(run: ActionRun, options: Rewrite, table: Table) -> ActionEffect | None:
    """Return the evidence that a writer's commits left nothing to do; ``None`` if there may be work."""
    if not options.only_if_needed:
        return None
    try:
        return options.nothing_to_do(PlanningContext(MetadataReader(table), run.catalog, run.now))
    except Exception as problem:  # noqa: BLE001 - whatever the planner cannot read, Spark may
        log.warning("plan_failed: Spark tries %s on %s again without a plan: %s", run.action, run.name, problem)
        return None


def _end_without_work(shape: RewriteWording, counts: Mapping[str, int], nothing: ActionEffect) -> ActionEffect:
    """Return the effect of a rewrite after which a concurrent writer left nothing to do."""
    done = _summary(shape, counts) if counts[shape.before] else f"No {shape.noun} was {shape.participle}"
    return ActionEffect(ActionOutcome.SUCCEEDED, f"{done} beside a concurrent writer. {nothing.message}", dict(counts))


def _branch(options: Rewrite) -> str | None:
    return getattr(options, "branch", None)


def _try(run: ActionRun, options: Rewrite, base: Table, *, strict: bool) -> Try:
    shape, trail = options.shape, run.trail(base, _branch(options))
    with_predicate = getattr(options, "where", None) is not None
    strict = strict or with_predicate
    jobs_before = run.jobs_run()
    try:
        (row,) = run.call(options.call(run.name, strict=strict))
    except SparkFailed as error:
        commits = trail.since(run.table())
        if is_conflict(error):
            return Try(_sums(commits, shape), f"{LOST_TO_WRITER} {error}", outraced=True)
        if failed_commits(error) is None:
            raise
        jobs = None if jobs_before is None else (run.jobs_run() or 0) - jobs_before
        return _after_failed_commits(error, commits, options, jobs)
    counts = {column: int(value or 0) for column, value in row.items()}
    # After a normal return, only partial progress may have swallowed a commit.
    if not getattr(options, "partial_progress", False) or (strict and options.strict_reports_all):
        return Try(counts)
    commits = trail.since(run.table())
    if commits.overwriting:
        return Try(counts, LOST_TO_WRITER, outraced=True)
    if not any(counts.values()):
        # A commit whose response was lost counts by its snapshot.
        return Try(counts | _sums(commits, shape), NOT_COMMITTED if jobs_before != run.jobs_run() else None)
    # Without strict calls and with a predicate, compare only after what makes commits fail.
    comparable = not with_predicate or _dropped_other_deletes(commits, shape, counts)
    lost = comparable and _fewer_than_planned(run, options, base, counts)
    return Try(counts, NOT_COMMITTED if lost else None)


def _dropped_other_deletes(commits: Commits, shape: RewriteWording, counts: Mapping[str, int]) -> bool:
    """Return whether a commit dropped dangling delete files in addition to those that it rewrote.

    File groups commit concurrently, and each commit drops such files. A commit that is retried because another was faster still
    requires the files that it wanted to drop, and fails with "Missing required files to delete".
    """
    counted_already = sum(counts.get(column, 0) for column, key in shape.summary.items() if key == REMOVED_DELETES)
    return commits.total_of_all(REMOVED_DELETES) > counted_already


def _fewer_than_planned(run: ActionRun, options: Rewrite, base: Table, counts: Mapping[str, int]) -> bool:
    """Return whether the metadata from before the call shows more to rewrite than was; true if no plan can be made from it."""
    try:
        plan = options.plan(PlanningContext(reader_for(base, [options]), run.catalog, run.now))
    except Exception as problem:  # noqa: BLE001 - whatever the planner cannot read, Spark may
        log.warning("plan_failed: Spark tries %s on %s again without a plan: %s", run.action, run.name, problem)
        return True
    return plan.metrics.get(options.shape.before, 0) > counts[options.shape.before] + counts.get(FAILED_FILES, 0)


def _after_failed_commits(error: SparkFailed, commits: Commits, options: Rewrite, jobs: int | None) -> Try:
    """Return the result of a strict call that reported failed commits; Iceberg's count may be wrong.

    :param jobs: how many Spark jobs the call has run, at least one for each file group; ``None`` if unknown.
    """
    counts, own = _sums(commits, options.shape), len(commits.own)
    if commits.overwriting:
        return Try(counts, f"{LOST_TO_WRITER} {error}", outraced=True)
    most = getattr(options, "partial_progress_max_commits", 0)
    # Iceberg expects as many commits as are allowed, even where the groups fill fewer: 12 groups in at most 10 commits are 6
    # commits of 2 groups, and "4 failed".
    may_be_miscounted = (failed_commits(error) or 0) + own == most and own > 1
    if may_be_miscounted and (jobs is None or getattr(options, "rewrite_all", False) or own >= commits_of(jobs, most)):
        return Try(counts)  # rewrite_all would rewrite everything again
    return Try(counts, f"{NOT_COMMITTED} {error}")


def _committed_since(run: ActionRun, start: CommitTrail, shape: RewriteWording) -> dict[str, int]:
    """Return what was committed since the start, as far as the catalog shows it."""
    try:
        return _sums(start.since(run.table()), shape)
    except SnowpackError as error:
        log.warning("What %s on %s had committed is not known: %s", run.action, run.name, error)
        return {}


def _sums(commits: Commits, shape: RewriteWording) -> dict[str, int]:
    return {column: commits.total(key) for column, key in shape.summary.items()}


def _stopped(
    shape: RewriteWording, counts: Mapping[str, int], outcome: ActionOutcome, error: str, final: bool = False
) -> ActionEffect:
    how = "Interrupted" if outcome is ActionOutcome.INTERRUPTED else "Failed"
    if not counts.get(shape.before):
        return ActionEffect(outcome, f"{how} before anything was committed", counts, error, final)
    return ActionEffect(outcome, f"{how} after it had {_summary(shape, counts, shape.participle)}", counts, error)


def _conclude(shape: RewriteWording, counts: Mapping[str, int], last: Try, *, outraced: bool) -> ActionEffect:
    done = bool(counts[shape.before])
    if last.doubt is not None:
        lost = "lost to a concurrent writer" if last.outraced else "could not be committed"
        if done:
            return ActionEffect(ActionOutcome.PARTIAL, f"{_summary(shape, counts)}; the rest {lost}", dict(counts), last.doubt)
        outcome = ActionOutcome.CONFLICT if last.outraced else ActionOutcome.FAILED
        return ActionEffect(outcome, f"Nothing was {shape.participle}: all {lost}", dict(counts), last.doubt)
    failed = counts.get(FAILED_FILES, 0)
    if failed:
        error = f"{plural(failed, 'data file')} could not be rewritten; see Spark's log at 'Failure during rewrite group'."
        outcome = ActionOutcome.PARTIAL if done else ActionOutcome.FAILED
        return ActionEffect(outcome, f"{_summary(shape, counts)}; {plural(failed, 'file')} failed", dict(counts), error)
    message = _summary(shape, counts) if done else f"No {shape.noun}s needed to be {shape.participle}"
    if TRIES in counts:
        message += f", in {counts[TRIES]} tries{' beside a concurrent writer' if outraced else ''}"
    return ActionEffect(ActionOutcome.SUCCEEDED, message, dict(counts))


def _summary(shape: RewriteWording, counts: Mapping[str, int], verb: str | None = None) -> str:
    if not counts[shape.after]:
        return f"{'removed' if verb else 'Removed'} {plural(counts[shape.before], shape.noun)} and wrote no new ones"
    return f"{verb or shape.verb} {plural(counts[shape.before], shape.noun)} into {counts[shape.after]:,}"
