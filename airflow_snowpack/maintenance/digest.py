"""What maintenance did in the last 24 hours: one sentence, and a line for each cause of failures.

    digest = read_digest(jobs, scores)
    digest.headline       # '412 jobs, 3 failed for one cause, 1.2 TiB rewritten, 2 tables still sick'
    digest.text           # the same, with a line for each cause

The home page, ``airflow snowpack digest`` and the report of a pass show this text. It takes three statements, whatever the number
of tables and jobs, and counts at most the :data:`MOST_JOBS` newest jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_snowpack.humanize import number, plural, size
from airflow_snowpack.inventory import ScoreCounts, TableScores
from airflow_snowpack.jobs import Jobs, RecentJob
from airflow_snowpack.jobs.action_history import ActionFigures
from airflow_snowpack.jobs.model import JobStatus, is_withdrawn
from airflow_snowpack.maintenance.fleet.report import ReportGroup, cause_of

PERIOD = timedelta(hours=24)
MOST_JOBS = 10_000
MOST_CAUSES = 20
"""How many causes the page and the text show; the last line of the text counts the rest."""
SMALL_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed jobs with the same cause.

    :param group: the cause, the first error in full, the tables and the ids of the jobs, newest first.
    :param to_rerun: the ids of the jobs that no later job of their table has replaced.
    :param locked: the tables of these jobs that another job or process has locked.
    """

    group: ReportGroup
    to_rerun: tuple[str, ...]
    locked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Digest:
    """What maintenance did in a period.

    :param ended: how many jobs ended in each status, without those that a pass cancelled.
    :param withdrawn: how many jobs a pass cancelled; their tables wait for the next pass.
    :param active: how many jobs wait or run now.
    :param files_removed, bytes_rewritten: by the jobs that ended.
    :param failures: by cause, the largest group first.
    :param scores: how many tables are in each condition now.
    :param is_capped: more jobs ended than were counted.
    """

    since: datetime
    until: datetime
    ended: Mapping[JobStatus, int]
    active: int
    files_removed: int
    bytes_rewritten: int
    failures: tuple[FailureGroup, ...]
    scores: ScoreCounts
    is_capped: bool = False
    withdrawn: int = 0

    @property
    def jobs(self) -> int:
        """How many jobs ended."""
        return sum(self.ended.values())

    @property
    def failed(self) -> int:
        return self.ended[JobStatus.FAILED]

    @property
    def headline(self) -> str:
        """The digest in one line, without a full stop."""
        counts = self.scores
        parts = [f"{plural(self.jobs, 'job')}{' or more' if self.is_capped else ''}", self._failed()]
        parts += [f"{number(self.withdrawn)} withdrawn"] if self.withdrawn else []
        parts += [f"{size(self.bytes_rewritten)} rewritten"] if self.bytes_rewritten else []
        parts += [f"{plural(counts.sick, 'table')} still sick" if counts.sick else "no table sick"] if counts.read else []
        parts += [f"{plural(counts.fair, 'table')} fair"] if counts.fair else []
        parts += [f"{plural(counts.unreadable, 'table')} cannot be read"] if counts.unreadable else []
        parts += [f"{plural(counts.not_read, 'table')} not read yet"] if counts.read and counts.not_read else []
        parts += [] if counts.read or counts.unreadable else ["no table health stored yet"]
        return ", ".join(parts)

    @property
    def lines(self) -> tuple[str, ...]:
        """The headline, a line for each cause of failures, and what is still active or was withdrawn."""
        lines = [f"{self.headline}."]
        for failure in self.failures[:MOST_CAUSES]:
            lines.append(f"Failed: {plural(len(failure.group.job_ids), 'job')}: {failure.group.line()}")
        rest = self.failures[MOST_CAUSES:]
        if rest:
            jobs = sum(len(failure.group.job_ids) for failure in rest)
            lines.append(f"Failed: {plural(jobs, 'job')} for {plural(len(rest), 'more cause', 'more causes')}.")
        if self.active:
            lines.append(f"Not ended: {plural(self.active, 'job')} waiting or running.")
        if self.withdrawn:
            lines.append(f"Withdrawn: {plural(self.withdrawn, 'job')}, which the next pass plans again.")
        return tuple(lines)

    @property
    def text(self) -> str:
        """The lines as one text, ready for a notifier."""
        return "\n".join(self.lines)

    def _failed(self) -> str:
        if not self.failed:
            return "none failed"
        causes = len(self.failures)
        spelled = SMALL_NUMBERS[causes] if causes < len(SMALL_NUMBERS) else number(causes)
        return f"{number(self.failed)} failed for {spelled} {'cause' if causes == 1 else 'causes'}"


def read_digest(jobs: Jobs, scores: TableScores, *, period: timedelta = PERIOD) -> Digest:
    """Read the digest of a period from the store."""
    until = jobs.store.clock()
    found = jobs.recent(until - period, at_most=MOST_JOBS + 1)
    locks = {lock.table.lock_key for lock in jobs.locks.list()} if any(_failed(job) for job in found) else set()
    return digest_of(found, scores.counts(), since=until - period, until=until, locked=locks)


def digest_of(
    found: Sequence[RecentJob], scores: ScoreCounts, *, since: datetime, until: datetime, locked: Iterable[str] = ()
) -> Digest:
    """Sum up jobs, given newest first; ``locked`` has the keys of the current locks."""
    over = [job for job in found if job.status.is_terminal]
    every = [job for job in over if not is_withdrawn(job)]
    ended, beyond = every[:MOST_JOBS], {job.job_id for job in every[MOST_JOBS:]}
    outcomes = [ActionFigures.of(result) for job in over if job.job_id not in beyond for result in job.results]
    by_status = {status: sum(job.status is status for job in ended) for status in JobStatus if status.is_terminal}
    return Digest(
        since,
        until,
        by_status,
        len(found) - len(over),
        sum(each.files_removed for each in outcomes),
        sum(each.bytes_rewritten for each in outcomes),
        group_failures((job for job in found if job.job_id not in beyond), locked),
        scores,
        len(every) > MOST_JOBS,
        len(over) - len(every),
    )


def group_failures(found: Iterable[RecentJob], locked: Iterable[str] = ()) -> tuple[FailureGroup, ...]:
    """Group failed jobs by their cause, the largest group first.

    :param found: all jobs of a period, newest first. A job that is not its table's newest is not to be re-run.
    :param locked: the keys of the current locks.
    """
    groups: defaultdict[str, list[tuple[RecentJob, bool]]] = defaultdict(list)
    seen, keys = set[str](), set(locked)
    for job in found:
        is_newest = job.table.lock_key not in seen
        seen.add(job.table.lock_key)
        if _failed(job):
            groups[cause_of(job.error or "", job.table)].append((job, is_newest))
    made = [_group(cause, members, keys) for cause, members in groups.items()]
    return tuple(sorted(made, key=lambda failure: (-len(failure.group.job_ids), failure.group.cause)))


def _group(cause: str, members: Sequence[tuple[RecentJob, bool]], locked: set[str]) -> FailureGroup:
    tables = dict.fromkeys(job.table.dotted for job, _ in members)
    newest = [job for job, is_newest in members if is_newest]
    return FailureGroup(
        ReportGroup(cause, members[0][0].error or "", tuple(tables), tuple(job.job_id for job, _ in members)),
        tuple(job.job_id for job in newest),
        tuple(job.table.dotted for job in newest if job.table.lock_key in locked),
    )


def _failed(job: RecentJob) -> bool:
    return job.status is JobStatus.FAILED
