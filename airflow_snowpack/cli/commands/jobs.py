"""``airflow snowpack jobs list|show|cancel|delete|rerun``: what became of requests, and what to do about them.

Several ids are several changes: one that is refused does not keep the others from being made, and the exit code tells.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.text import Text

from airflow_snowpack.api import bodies
from airflow_snowpack.cli.confirm import confirm
from airflow_snowpack.cli.exit_code import ExitCode, code_of, common_code
from airflow_snowpack.cli.job_filter import filter_of
from airflow_snowpack.cli.job_id import short_id
from airflow_snowpack.cli.opened import opened
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import (
    Column,
    console,
    is_for_people,
    none_of,
    print_data,
    print_list,
    print_one,
    print_rows,
    printable,
    say,
    status_text,
)
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import ago, clock_time, duration
from airflow_snowpack.iceberg.errors import catalog_label

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from datetime import datetime

    from airflow_snowpack.cli.opened import Opened
    from airflow_snowpack.jobs import ActionResult, AuditEntry, HistoryEntry, Job, QueuePlace

PAGE = 500


@ends_cleanly
def list_jobs(args: Namespace) -> ExitCode | None:
    """``jobs list``"""
    from airflow_snowpack.jobs import MAX_EXAMINED

    with opened(args) as here:
        which = filter_of(args, here)
        page = here.jobs.page(which, after=args.cursor, limit=PAGE if args.all else args.limit)
        found = [*page.items]
        while args.all and page.next is not None:
            page = here.jobs.page(which, after=page.next, limit=PAGE)
            found += page.items
        older = page.searched_to is not None
        filters = (args.table, args.status, args.search, args.dag, args.dry_run is not None, args.since, args.until)
        empty = none_of("jobs", filters=filters, after=args.cursor, empty="No jobs yet. Submit one: airflow snowpack jobs submit")
        empty = "No jobs match the filter so far." if older else empty
        print_list(args.output, found, bodies.job_body, job_columns(here.now), empty=empty)
    if page.searched_to is not None:
        back_to = f"{page.searched_to:%Y-%m-%d %H:%M:%S} UTC"
        say(f"{MAX_EXAMINED:,} jobs were searched, back to {back_to}: --cursor {page.next} continues, --all searches all.")
    elif page.next is not None:
        say(f"There are more: --cursor {page.next} goes on, --all shows all of them.")
    return None


@ends_cleanly
def show(args: Namespace) -> ExitCode | None:
    """``jobs show``"""
    with opened(args) as here:
        _print_story(args.output, here, here.job(args.job_id))
    return None


@ends_cleanly
def cancel(args: Namespace) -> ExitCode | None:
    """``jobs cancel``"""

    def ask(here: Opened, jobs: list[Job]) -> None:
        confirm(f"Cancel {_named(jobs)}, for good?", yes=args.yes)

    return _change(args, ask, lambda here, job: here.jobs.cancel(job.job_id, actor=here.actor), "cancelled")


@ends_cleanly
def delete(args: Namespace) -> ExitCode | None:
    """``jobs delete``"""

    def ask(here: Opened, jobs: list[Job]) -> None:
        confirm(f"Delete {_named(jobs)}? What was done to them stays in the audit trail.", yes=args.yes)

    def remove(here: Opened, job: Job) -> Job:
        here.jobs.delete(job.job_id, actor=here.actor)
        return job

    return _change(args, ask, remove, "deleted")


@ends_cleanly
def rerun(args: Namespace) -> ExitCode | None:
    """``jobs rerun``"""
    return _change(args, lambda _here, _jobs: None, _ask_again, "asked for once more")


def _ask_again(here: Opened, job: Job) -> Job:
    """The same request as a new job; a dry run is one again."""
    from airflow_snowpack.maintenance.submit import MaintenanceRequest, check_options, plan_request

    here.inventory.require(job.table)
    request = MaintenanceRequest.again(job, order=here.settings.action_order)
    if not job.dry_run:
        check_options(here.inventory.catalog, request)
        return here.jobs.rerun(job.job_id, actor=here.actor)
    results = plan_request(here.jobs, here.inventory.catalog(), request)
    return here.jobs.record_dry_run(job.table, request.actions, results, options=request.options, actor=here.actor)


def job_columns(now: datetime) -> list[Column[Job]]:
    """A job in a list."""
    return [
        Column("job", lambda job: job.job_id, lambda job: short_id(job.job_id)),
        Column("table", lambda job: job.table.dotted),
        Column("status", lambda job: job.status.value, lambda job: _status(job)),
        Column("actions", lambda job: ",".join(job.actions), lambda job: _actions(job)),
        Column("submitted", lambda job: bodies.moment(job.submitted_at), lambda job: ago(job.submitted_at, now)),
        Column("took", lambda job: _seconds(job, now), lambda job: _took(job, now)),
        Column("by", lambda job: job.submitted_by),
        Column("error", lambda job: job.error, lambda job: _first_line(job.error)),
    ]


def result_columns() -> list[Column[ActionResult]]:
    """What one action of a job did, or would do."""
    return [
        Column("action", lambda result: result.action),
        Column("outcome", lambda result: result.outcome.value),
        Column("took", lambda result: result.elapsed_seconds, lambda result: f"{result.elapsed_seconds:.1f} s"),
        Column("message", lambda result: result.message),
        Column("error", lambda result: result.error),
    ]


def _change(
    args: Namespace, ask: Callable[[Opened, list[Job]], None], change: Callable[[Opened, Job], Job], done: str
) -> ExitCode:
    with opened(args) as here:
        wanted, codes = _find_all(here, args.job_ids)
        if wanted:
            ask(here, wanted)
        changed: list[Job] = []
        for job in wanted:
            try:
                changed.append(change(here, job))
            except SnowpackError as problem:
                codes.append(_tell(problem))
                continue
            if is_for_people(args.output):
                print(f"{short_id(changed[-1].job_id)}  {changed[-1].table.dotted}  {done}")
        if not is_for_people(args.output):
            print_list(args.output, changed, bodies.job_body, job_columns(here.now), empty="")
    return common_code(codes)


def _find_all(here: Opened, given: list[str]) -> tuple[list[Job], list[ExitCode]]:
    """The jobs, once each, and what was wrong with the ids of the others."""
    found: dict[str, Job] = {}
    codes: list[ExitCode] = []
    for each in given:
        try:
            job = here.job(each)
        except SnowpackError as problem:
            codes.append(_tell(problem))
        else:
            found[job.job_id] = job
    return [*found.values()], codes


def _tell(problem: SnowpackError) -> ExitCode:
    print(problem, file=sys.stderr)
    return code_of(problem)


def _named(jobs: list[Job]) -> str:
    some = ", ".join(f"{short_id(job.job_id)} ({job.table.dotted}, {job.status})" for job in jobs[:5])
    more = f" and {len(jobs) - 5} more" if len(jobs) > 5 else ""
    return f"job{'s' if len(jobs) > 1 else ''} {some}{more}"


def _print_story(output: str, here: Opened, job: Job) -> None:
    from airflow_snowpack.jobs import explain

    place = here.jobs.places([job.job_id]).get(job.job_id)
    told, done, now = here.jobs.history(job.job_id), here.audit.of(job.job_id), here.now
    why = str(explain(here.jobs, job))
    if not is_for_people(output):
        data = _story_body(job, why, place, told, done)
        print_one(output, data, {name: value for name, value in data.items() if not isinstance(value, (list, dict))})
        return
    print_one(output, {}, _fields(job, why, place, now))
    if job.results:
        print()
        print_rows(output, job.results, result_columns(), empty="")
    print()
    lines = [(entry.at, story_line(entry)) for entry in told]
    lines += [(change.at, f"{change.change} asked for by {change.actor} ({change.via})") for change in done]
    for at, line in sorted(lines):
        moment = Text(f"{at:%Y-%m-%d} {clock_time(at)}  ", "dim")
        console().print(moment.append(printable(line), "default"), soft_wrap=True)


def _story_body(job: Job, why: str, place: QueuePlace | None, told: list[HistoryEntry], done: list[AuditEntry]) -> dict[str, Any]:
    """The API's timeline of the job, with the job's own fields at the top as everywhere on the command line."""
    story = bodies.timeline_body(job, place, told, done, why)
    return {**story.pop("job"), **story, "results": story["results"] or None}


def _fields(job: Job, why: str, place: QueuePlace | None, now: datetime) -> dict[str, object]:
    fields: dict[str, object] = {
        "job": job.job_id,
        "table": job.table.dotted,
        "catalog": catalog_label(job.table.catalog, job.table.catalog_id) if job.table.catalog_id else None,
        "status": _status(job),
        "": why,
        "actions": ", ".join(job.actions),
        "options": "; ".join(f"{action}: {dict(said)}" for action, said in job.options.items()),
        "submitted": f"{ago(job.submitted_at, now)}" + (f" by {job.submitted_by}" if job.submitted_by else ""),
        "task": job.owner,
        "attempt": job.attempt or None,
        "started": ago(job.started_at, now),
        "took": _took(job, now),
        "lease ends": ago(place.visible_at, now) if place is not None and place.claimed_at is not None else "",
        "cancelled by": job.cancelled_by,
        "error": Text(printable(job.error), "red") if job.error else None,
    }
    return {name: value for name, value in fields.items() if value}


def story_line(entry: HistoryEntry) -> str:
    """One event of a job's life, as a line."""
    detail = entry.detail
    match entry.event:
        case "submitted" | "cancelled":
            return f"{entry.event}" + (f" by {detail['by']}" if detail.get("by") else "")
        case "heartbeat":
            count = detail.get("count", 1)
            return "1 heartbeat" if count == 1 else f"{count:,} heartbeats, the last one at {detail['last_at'][11:19]}"
        case "claimed" | "taken_over":
            verb = "claimed" if entry.event == "claimed" else "taken over"
            return f"{verb} by {detail.get('worker', 'a worker')} (attempt {detail.get('attempt', '?')})"
        case "action":
            took = f" in {detail['elapsed_seconds']:.1f} s" if isinstance(detail.get("elapsed_seconds"), int | float) else ""
            return f"{detail.get('action')} {detail.get('outcome')}{took}: {detail.get('message', '')}"
        case "requeued":
            return "back in the queue: the lease of its worker ran out"
        case "writeback_stale_attempt":
            return "an attempt that had been replaced wanted to write; nothing of it counts"
        case "failed":
            return "failed" + (f": {detail['error']}" if detail.get("error") else f": {detail.get('reason', '')}".rstrip(": "))
        case other:
            return other.replace("_", " ")


def _status(job: Job) -> Text:
    text = status_text(job.status.value)
    return text.append(" (dry run)", "dim") if job.dry_run else text


def _actions(job: Job) -> str:
    from airflow_snowpack.maintenance import Action

    return "all" if len(job.actions) == len(Action) else ", ".join(job.actions)


def _took(job: Job, now: datetime) -> str:
    if job.started_at is None or job.dry_run:
        return ""
    return duration((job.completed_at or now) - job.started_at)


def _seconds(job: Job, now: datetime) -> float | None:
    return None if job.started_at is None else ((job.completed_at or now) - job.started_at).total_seconds()


def _first_line(error: str | None) -> Text:
    lines = (error or "").splitlines()
    text = Text(printable(lines[0]) if lines else "", "red")
    text.truncate(60, overflow="ellipsis")
    return text


def print_job(output: str, job: Job) -> None:
    """A job's JSON for programs; people have read about it already."""
    if not is_for_people(output):
        data = bodies.job_body(job)
        if output == "plain":
            print_one(output, data, {name: value for name, value in data.items() if not isinstance(value, (list, dict))})
        else:
            print_data(output, data)
