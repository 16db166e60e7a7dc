"""A job's life, as bars over its time and as a list of what happened.

    spans(job, history, now)     # waited, each action, what runs now
    steps(job, history)          # submitted, claimed, 12 heartbeats, …

The job's own row is the truth and the history is best-effort: what the history lacks comes from the row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_snowpack.humanize import duration, plural
from airflow_snowpack.jobs import HistoryEntry, Job, JobStatus, shown_status

FULL = 1000
LEAST = 4
CLAIMS = ("claimed", "taken_over")
TONES = {"dry_run": "completed", "completed": "completed", "cancelled": "cancelled"}


@dataclass(frozen=True, slots=True)
class Span:
    """A bar: something that took its time.

    :param x: where it begins, of :data:`FULL`.
    :param tone: an action's outcome, ``waiting`` or ``running``.
    :param going_on: it has not ended yet.
    """

    label: str
    begin: datetime
    end: datetime
    tone: str
    attempt: int | None = None
    going_on: bool = False
    x: int = 0
    width: int = 0

    @property
    def took(self) -> timedelta:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """Something that happened.

    :param tone: colours its mark: an outcome, a status or ``plain``.
    :param last: for what happened again and again, when it did last.
    """

    at: datetime
    title: str
    detail: str = ""
    tone: str = "plain"
    last: datetime | None = None


def spans(job: Job, history: Sequence[HistoryEntry], now: datetime) -> list[Span]:
    """The bars, oldest first. None for a dry run, which takes no time."""
    if job.dry_run:
        return []
    end = job.completed_at or now
    found = sorted([*_waits(job, history, end), *_actions(job, history, end)], key=lambda span: (span.begin, span.end))
    total = (end - job.submitted_at).total_seconds() or 1.0
    return [_placed(span, job.submitted_at, total) for span in found]


def steps(job: Job, history: Sequence[HistoryEntry]) -> list[TimelineStep]:
    """What happened, oldest first."""
    recorded = [_step(entry) for entry in history]
    return sorted([*_missing(job, recorded), *recorded], key=lambda step: step.at)


def _waits(job: Job, history: Iterable[HistoryEntry], end: datetime) -> Iterable[Span]:
    """From each time that it came into the queue to the claim that took it out."""
    since: datetime | None = job.submitted_at
    for entry in history:
        if entry.event in CLAIMS and since is not None:
            yield Span("waited for a worker", since, entry.at, "waiting")
            since = None
        elif entry.event == "requeued":
            since = entry.at
    if since is None:
        return
    if job.started_at is not None and since == job.submitted_at:
        yield Span("waited for a worker", since, job.started_at, "waiting")
    elif job.status is not JobStatus.RUNNING:
        going_on = job.status is JobStatus.PENDING
        yield Span(f"{'waits' if going_on else 'waited'} for a worker", since, end, "waiting", going_on=going_on)


def _actions(job: Job, history: Sequence[HistoryEntry], end: datetime) -> Iterable[Span]:
    """Each action of each attempt, and what an attempt was at when it was lost or stopped."""
    yield from _recorded(job, history)
    if job.started_at is not None and not any(entry.event == "action" for entry in history):
        yield from _results(job, job.started_at)
    since, attempt = _open_attempt(job, history)
    done = {result.action for result in job.results}
    current = next((action for action in job.actions if action not in done), None)
    if since is None or current is None:
        return
    if job.status is JobStatus.RUNNING:
        yield Span(current, since, max(end, since), "running", attempt, going_on=True)
    elif job.status in (JobStatus.CANCELLED, JobStatus.FAILED) and (end - since).total_seconds() >= 1:
        yield Span(current, since, end, "interrupted", attempt)


def _recorded(job: Job, history: Sequence[HistoryEntry]) -> Iterable[Span]:
    attempts, held = _attempts(history), False
    since = job.submitted_at
    for entry in history:
        if held and (entry.event == "requeued" or entry.event in CLAIMS) and entry.at > since:
            yield Span("lost with its worker", since, entry.at, "interrupted")
        if entry.event in CLAIMS:
            held, since = True, entry.at
        elif entry.event == "requeued":
            held = False
        elif entry.event == "action":
            begin = max(entry.at - timedelta(seconds=float(entry.detail.get("elapsed_seconds", 0))), job.submitted_at)
            outcome, attempt = str(entry.detail.get("outcome", "")), attempts.get(entry.attempt_id or "")
            yield Span(str(entry.detail.get("action", "action")), begin, entry.at, outcome, attempt)
            since = entry.at


def _results(job: Job, since: datetime) -> Iterable[Span]:
    """Return one span after the other from the start, when the history lacks actions."""
    for result in job.results:
        until = since + timedelta(seconds=result.elapsed_seconds)
        yield Span(result.action, since, until, result.outcome.value, job.attempt)
        since = until


def _open_attempt(job: Job, history: Sequence[HistoryEntry]) -> tuple[datetime | None, int | None]:
    """Return since when the last attempt has been running an action that has not ended, unless it went back to the queue."""
    since, attempts = job.started_at, _attempts(history)
    attempt: int | None = job.attempt or None
    for entry in history:
        if entry.event in CLAIMS or entry.event == "action":
            since, attempt = entry.at, attempts.get(entry.attempt_id or "", attempt or 0)
        elif entry.event == "requeued":
            since = None
    return since, attempt


def _placed(span: Span, start: datetime, total: float) -> Span:
    width = max(round(FULL * span.took.total_seconds() / total), LEAST)
    x = round(FULL * (span.begin - start).total_seconds() / total)
    x = min(max(x, 0), FULL - LEAST)
    return replace(span, x=x, width=min(width, FULL - x))


def _attempts(history: Iterable[HistoryEntry]) -> dict[str, int]:
    claims = (entry for entry in history if entry.event in CLAIMS and entry.attempt_id)
    return {str(entry.attempt_id): int(entry.detail.get("attempt", 0)) for entry in claims}


def _step(entry: HistoryEntry) -> TimelineStep:
    at, detail, name = entry.at, dict(entry.detail), entry.event.replace("_", " ").capitalize()
    match entry.event:
        case "claimed" | "taken_over":
            return TimelineStep(
                at, f"{name}, attempt {detail.get('attempt', '?')}", f"by worker {detail.get('worker', '?')}", "running"
            )
        case "heartbeat":
            count = int(detail.get("count", 1))
            return TimelineStep(
                at, plural(count, "heartbeat"), last=datetime.fromisoformat(detail["last_at"]) if count > 1 else None
            )
        case "action":
            took, outcome = duration(float(detail.get("elapsed_seconds", 0))), str(detail.get("outcome", ""))
            return TimelineStep(at, f"{detail.get('action', 'action')} in {took}", str(detail.get("message", "")), outcome)
        case "requeued":
            return TimelineStep(at, "Back in the queue", "its worker was gone and the lease ran out", "waiting")
        case "failed":
            return TimelineStep(at, name, str(detail.get("error") or detail.get("reason") or ""), "failed")
        case "unlocked":
            return TimelineStep(at, "Table unlocked", "its worker has left the table alone")
        case "writeback_stale_attempt":
            wanted = f"it wanted to write {detail['wanted']}" if detail.get("wanted") else ""
            return TimelineStep(at, "A replaced attempt came back and was ignored", wanted, "conflict")
        case event:
            return TimelineStep(at, name, f"by {detail['by']}" if detail.get("by") else "", TONES.get(event, "plain"))


def _missing(job: Job, recorded: Sequence[TimelineStep]) -> Iterable[TimelineStep]:
    """What the job's row knows and the history does not."""
    titles = {step.title.split(",")[0] for step in recorded}
    if not titles & {"Submitted", "Dry run"}:
        yield TimelineStep(job.submitted_at, "Submitted", f"by {job.submitted_by}" if job.submitted_by else "")
    if job.started_at is not None and not job.dry_run and not titles & {"Claimed", "Taken over"}:
        yield TimelineStep(job.started_at, "Started", "", "running")
    if job.completed_at is not None and not job.dry_run and job.status.value.capitalize() not in titles:
        yield TimelineStep(job.completed_at, shown_status(job).capitalize(), job.error or "", job.status.value)
