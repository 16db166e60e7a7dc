"""``airflow snowpack jobs list|show|cancel|delete|rerun``: jobs and what to do about them."""

from argparse import Namespace
from collections.abc import Callable
from datetime import datetime
from typing import Any

from rich.text import Text

from airflow_snowpack.cli.changes import confirm, each
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.output import (
    coloured,
    console,
    filled,
    is_for_people,
    none_of,
    note,
    print_data,
    print_list,
    print_one,
    print_rows,
    printable,
)
from airflow_snowpack.cli.values import read_time
from airflow_snowpack.exit_code import ExitCode, common_code
from airflow_snowpack.humanize import ago, clock_time, duration, plural, short_id, timestamp
from airflow_snowpack.iceberg.errors import catalog_label
from airflow_snowpack.jobs import MAX_EXAMINED, HistoryEntry, Job, JobFilter, JobStatus, QueuePlace, explain
from airflow_snowpack.jobs.action_history import ActionFigures, skipped_by_plan
from airflow_snowpack.maintenance.planning import Decision
from airflow_snowpack.store import AuditEntry, AuditTrail
from airflow_snowpack.wire.job import JOBS, RESULTS, JobShape, TimelineShape, elapsed, plan_of, status_text
from airflow_snowpack.wire.listing import Column, readable
from airflow_snowpack.wire.plan import DECISIONS, work

PAGE = 500


@command
def list_jobs(args: Namespace, here: CommandContext) -> None:
    which = _filter(args, here)
    page = here.jobs.page(which, after=args.cursor, limit=PAGE if args.all else args.limit)
    found = [*page.items]
    while args.all and page.next is not None:
        page = here.jobs.page(which, after=page.next, limit=PAGE)
        found += page.items
    older = page.searched_to is not None
    filters = (args.table, args.status, args.search, args.dag, args.dry_run is not None, args.since, args.until)
    empty = none_of("jobs", filters=filters, after=args.cursor, empty="No jobs yet. Submit one: airflow snowpack jobs submit")
    empty = "No jobs match the filter so far." if older else empty
    print_list(args.output, JOBS, found, here.now, empty=empty)
    if page.searched_to is not None:
        searched = f"{plural(MAX_EXAMINED, 'job')} back to {timestamp(page.searched_to)} were searched"
        note(f"{searched}: --cursor {page.next} searches older jobs, --all searches all of them.")
    elif page.next is not None:
        note(f"There are more: --cursor {page.next} shows the next page, --all shows all of them.")


def _filter(args: Namespace, here: CommandContext) -> JobFilter:
    """Return the filter of the arguments; a table's name matches in every catalog."""
    return JobFilter(
        table=None if args.table is None else here.catalog_hook.table_name(args.table),
        statuses=frozenset(JobStatus(status) for status in args.status or ()),
        search=args.search,
        dag_id=args.dag,
        dry_run=args.dry_run,
        since=read_time("--since", args.since, here.now),
        until=read_time("--until", args.until, here.now),
    )


@command
def show(args: Namespace, here: CommandContext) -> None:
    _print_story(args.output, here, here.job(args.job_id))


@command
def cancel(args: Namespace, here: CommandContext) -> ExitCode | None:
    question = "Cancel {}? This cannot be undone."
    return _change(args, here, question, lambda job: here.jobs.cancel(job.job_id, actor=here.actor), "cancelled")


@command
def delete(args: Namespace, here: CommandContext) -> ExitCode | None:

    def remove(job: Job) -> Job:
        here.jobs.delete(job.job_id, actor=here.actor)
        return job

    return _change(args, here, "Delete {}? The audit trail keeps their changes.", remove, "deleted")


@command
def rerun(args: Namespace, here: CommandContext) -> ExitCode | None:
    return _change(args, here, None, lambda job: here.submitter.rerun(job.job_id), "submitted again")


def _change(args: Namespace, here: CommandContext, question: str | None, change: Callable[[Job], Job], done: str) -> ExitCode:
    """Change each job, after a confirmation if there is a question, which has ``{}`` in place of the jobs."""
    found, unknown = each(args.job_ids, here.job)
    jobs = {job.job_id: job for job in found}
    if jobs and question is not None:
        confirm(question.format(_named([*jobs.values()])), yes=args.yes)
    people = is_for_people(args.output)

    def show(job: Job) -> None:
        if people:
            print(f"{short_id(job.job_id)}  {job.table.dotted}  {done}")

    changed, code = each(jobs.values(), change, show)
    if not people:
        print_list(args.output, JOBS, changed, here.now)
    return common_code([unknown, code])


def _named(jobs: list[Job]) -> str:
    some = ", ".join(f"{short_id(job.job_id)} ({job.table.dotted}, {status_text(job)})" for job in jobs[:5])
    more = f" and {len(jobs) - 5} more" if len(jobs) > 5 else ""
    return f"job{'s' if len(jobs) > 1 else ''} {some}{more}"


def _print_story(output: str, here: CommandContext, job: Job) -> None:
    place = here.jobs.places([job.job_id]).get(job.job_id)
    history, done, now = here.jobs.history(job.job_id), AuditTrail(here.jobs.store).of(job.job_id), here.now
    why = str(explain(here.jobs, job))
    if not is_for_people(output):
        data = _story_body(job, why, place, history, done)
        print_one(output, data, {name: value for name, value in data.items() if not isinstance(value, (list, dict))})
        return
    print_one(output, {}, _fields(job, why, place, now))
    if plan := plan_of(job):
        outcomes = {} if job.dry_run else {result.action: work(ActionFigures.of(result)) for result in job.results}
        print(f"\nplanned {ago(plan.made_at, now)} at a score of {plan.score}")
        outcome: Column[Decision] = Column("outcome", lambda each: outcomes.get(each.action) if each.runs else None)
        print_rows(output, (*DECISIONS.columns[:-1], outcome), plan.decisions, now)
    if results := [result for result in job.results if skipped_by_plan(job, result.action) is None]:
        print()
        print_rows(output, RESULTS.columns, results, now)
    print()
    lines = [(entry.at, story_line(entry)) for entry in history]
    lines += [(change.at, f"{change.change} by {change.actor} ({change.via})") for change in done]
    for at, line in sorted(lines):
        moment = Text(f"{at:%Y-%m-%d} {clock_time(at)}  ", "dim")
        console().print(moment.append(printable(line), "default"), soft_wrap=True)


def _story_body(
    job: Job, why: str, place: QueuePlace | None, history: list[HistoryEntry], done: list[AuditEntry]
) -> dict[str, Any]:
    """Return the API's timeline of the job, with the job's own fields at the top as everywhere on the command line."""
    story = TimelineShape.encode(job, job=job, queue=place, history=history, audit=done, explanation=why)
    return {**story.pop("job"), **story, "results": story["results"] or None}


def _fields(job: Job, why: str, place: QueuePlace | None, now: datetime) -> dict[str, object]:
    fields: dict[str, object] = {
        "job": job.job_id,
        "table": job.table.dotted,
        "catalog": catalog_label(job.table.catalog, job.table.catalog_id) if job.table.catalog_id else None,
        "status": coloured(status_text(job), job.status),
        "": why,
        "actions": job.work,
        "options": "; ".join(f"{action}: {dict(values)}" for action, values in job.options.items()),
        "submitted": f"{ago(job.submitted_at, now)}" + (f" by {job.submitted_by}" if job.submitted_by else ""),
        "task": job.owner,
        "priority": job.priority or None,
        "attempt": job.attempt or None,
        "started": ago(job.started_at, now),
        "took": "" if job.dry_run else readable(elapsed(job), now),
        "lease ends": ago(place.visible_at, now) if place is not None and place.claimed_at is not None else "",
        "cancelled by": job.cancelled_by,
        "error": coloured(job.error, "failed") if job.error else None,
    }
    return filled(fields)


def story_line(entry: HistoryEntry) -> str:
    """Return an event of a job's history as a line."""
    detail = entry.detail
    match entry.event:
        case "submitted" | "cancelled":
            return f"{entry.event}" + (f" by {detail['by']}" if detail.get("by") else "")
        case "heartbeat":
            count = detail.get("count", 1)
            return plural(count, "heartbeat") + (f", the last one at {detail['last_at'][11:19]}" if count > 1 else "")
        case "claimed" | "taken_over":
            verb = "claimed" if entry.event == "claimed" else "taken over"
            return f"{verb} by {detail.get('worker', 'a worker')} (attempt {detail.get('attempt', '?')})"
        case "action":
            took = f" in {duration(detail['elapsed_seconds'])}" if isinstance(detail.get("elapsed_seconds"), int | float) else ""
            return f"{detail.get('action')} {detail.get('outcome')}{took}: {detail.get('message', '')}"
        case "requeued":
            return "requeued: the lease of its worker expired"
        case "writeback_stale_attempt":
            return "a superseded attempt tried to write its result, which was discarded"
        case "failed":
            return "failed" + (f": {detail['error']}" if detail.get("error") else f": {detail.get('reason', '')}".rstrip(": "))
        case other:
            return other.replace("_", " ")


def print_job(output: str, job: Job) -> None:
    """Print a job for programs; people have read its messages."""
    if not is_for_people(output):
        data = JobShape.encode(job)
        if output == "plain":
            print_one(output, data, {name: value for name, value in data.items() if not isinstance(value, (list, dict))})
        else:
            print_data(output, data)
