"""``airflow snowpack jobs watch``: print a job's events until it ends.

    ended = Watch(jobs, LiveLine(sys.stdout)).until_over(job_id)      # None: the time was up

The events are those of the job's history. Events can be missing there, so at the end the results are printed from the job itself.

The invariant: watching changes nothing, and the job does not depend on it.
"""

import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from airflow_snowpack.cli.commands.jobs import print_job, story_line
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.output import is_for_people, note
from airflow_snowpack.cli.progress import LiveLine
from airflow_snowpack.cli.values import read_period, read_poll
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.humanize import ago, clock_time, duration, short_id
from airflow_snowpack.jobs import ActionResult, HistoryEntry, Job, Jobs, explain, shown_status
from airflow_snowpack.store import StoreTooSlow, StoreUnreachable

POLL = timedelta(seconds=1)
EXPLAIN_EVERY = timedelta(minutes=1)
SKIPPED_EVENTS = frozenset({"heartbeat", "completed", "failed", "cancelled", "deleted"})  # the end is printed from the job itself
BEGINS_ATTEMPT = frozenset({"claimed", "taken_over"})


@command
def watch(args: Namespace, here: CommandContext) -> ExitCode | None:
    return watch_job(args, here, here.job(args.job_id))


def watch_job(args: Namespace, here: CommandContext, job: Job) -> ExitCode:
    """Watch a job until it ends, and return the exit code.

    :param args: ``timeout``, ``poll`` and ``output``.
    """
    poll, timeout = read_periods(args)
    with LiveLine(sys.stdout if is_for_people(args.output) else sys.stderr) as line:
        watching = Watch(here.jobs, line, poll=poll, timeout=timeout)
        try:
            ended = watching.until_over(job.job_id)
        except KeyboardInterrupt:
            line.clear()
            note(f"Stopped watching. {_goes_on(job)}")
            return ExitCode.INTERRUPTED
    if ended is None:
        note(f"Timed out after {args.timeout}. {_goes_on(job)}")
        print_job(args.output, here.jobs.get(job.job_id))
        return ExitCode.TIMEOUT
    print_job(args.output, ended)
    return ExitCode.DONE if ended.status.value == "completed" else ExitCode.JOB_FAILED


def read_periods(args: Namespace) -> tuple[timedelta, timedelta | None]:
    """Return the pause between two polls, and how long to watch at most."""
    return read_poll(args.poll), None if args.timeout is None else read_period("--timeout", args.timeout)


class Watch:
    """Polls one job and prints its new events.

    :param line: takes the events, and the current state if it is a terminal.
    :param poll: the pause between two polls.
    :param timeout: watch no longer than this.
    """

    def __init__(
        self,
        jobs: Jobs,
        line: LiveLine,
        *,
        poll: timedelta = POLL,
        timeout: timedelta | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._jobs = jobs
        self._line = line
        self._poll = poll
        self._timeout = timeout
        self._sleep = sleep
        self._printed: Counter[tuple[object, ...]] = Counter()
        self._actions: set[str] = set()  # printed for the current attempt
        self._why: tuple[str, datetime] | None = None
        self._unreachable = False

    def until_over(self, job_id: str) -> Job | None:
        """Watch until the job ends.

        :returns: the job as it ended; ``None`` when the time was up before.
        :raises JobNotFound: it was deleted.
        """
        clock = self._jobs.store.clock
        give_up = None if self._timeout is None else clock() + self._timeout
        while True:
            job = self._poll_once(job_id)
            if job is not None and job.status.is_terminal:
                self._print_end(job)
                return job
            if give_up is not None and clock() >= give_up:
                return None
            self._sleep(self._poll.total_seconds())

    def _poll_once(self, job_id: str) -> Job | None:
        try:
            job = self._jobs.get(job_id)
            for entry in self._jobs.history(job_id):
                self._print_event(entry)
            if not job.status.is_terminal:
                self._show(job)
        except (StoreUnreachable, StoreTooSlow) as problem:
            if not self._unreachable:
                self._line.write(f"{clock_time(self._jobs.store.clock())}  {problem} Still watching.")
            self._unreachable = True
            return None
        self._unreachable = False
        return job

    def _print_event(self, entry: HistoryEntry) -> None:
        key = (entry.at, entry.event, entry.attempt_id, str(entry.detail.get("action")))
        self._printed[key] += 1
        if self._printed[key] > 1:
            return
        if entry.event in BEGINS_ATTEMPT:
            self._actions.clear()
        if entry.event == "action":
            self._actions.add(str(entry.detail.get("action")))
        if entry.event not in SKIPPED_EVENTS:
            self._line.write(f"{clock_time(entry.at)}  {story_line(entry)}")

    def _show(self, job: Job) -> None:
        """Show the current state: always on a terminal, elsewhere when it changes, and at most once a minute."""
        why, now = str(explain(self._jobs, job)), self._jobs.store.clock()
        if self._line.is_live:
            self._line.show(f"{job.status} {_since(job, now)}  {why}{self._lease(job, now)}")
        elif self._why is None or (why != self._why[0] and now - self._why[1] >= EXPLAIN_EVERY):
            self._why = (why, now)
            self._line.write(f"{clock_time(now)}  {why}")

    def _lease(self, job: Job, now: datetime) -> str:
        place = self._jobs.places([job.job_id]).get(job.job_id)
        return "" if place is None or place.claimed_at is None else f" Its lease ends {ago(place.visible_at, now)}."

    def _print_end(self, job: Job) -> None:
        at = clock_time(job.completed_at or self._jobs.store.clock())
        for result in job.results:
            if result.action not in self._actions:
                self._line.write(f"{at}  {_result_line(result)}")
        took = f" after {_whole_seconds(job.completed_at - job.started_at)}" if job.completed_at and job.started_at else ""
        self._line.write(f"{at}  {shown_status(job)}{took}" + (f": {job.error}" if job.error else ""))


def _since(job: Job, now: datetime) -> str:
    return _whole_seconds(now - (job.started_at or job.submitted_at))


def _whole_seconds(span: timedelta) -> str:
    """Without the decimals of a span below 10 s, which would flicker in the live line."""
    return duration(int(span.total_seconds()))


def _result_line(result: ActionResult) -> str:
    return f"{result.action} {result.outcome} in {duration(result.elapsed_seconds)}: {result.message}"


def _goes_on(job: Job) -> str:
    return (
        f"The job {short_id(job.job_id)} continues; `airflow snowpack jobs watch {short_id(job.job_id)}` watches it again, "
        f"and `jobs cancel` cancels it."
    )
