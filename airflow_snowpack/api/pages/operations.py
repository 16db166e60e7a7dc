"""The pages of operations: the queue with drain mode and the background roles, locks, and the audit trail."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.charts import queue_chart, throughput_chart, wait_chart
from airflow_snowpack.api.pages.page import Here, HtmlPage, PageRoute
from airflow_snowpack.humanize import ID
from airflow_snowpack.jobs import Job, JobNotFound, QueueSample, TableLock, list_workers
from airflow_snowpack.store import AuditEntry, AuditTrail
from airflow_snowpack.store.paging import search_pages
from airflow_snowpack.wire.operations import locked_by_job

PERIOD = timedelta(days=1)
STEPS = 96
PER_HOUR = STEPS // 24
CHART_WIDTH = 600
KEPT = timedelta(minutes=1)
LOCKS = 200
PAGE = 100
SEARCH_LIMIT = 2_000
"""How many entries of the audit trail one request searches at most."""

router = APIRouter(route_class=PageRoute)


@router.get("/queue")
def queue(page: Here) -> HTMLResponse:
    samples = _samples(page)
    # From the newest back, so that each hour is full; the oldest may not be.
    begins = range(len(samples) % PER_HOUR, len(samples), PER_HOUR)
    hours = [_sum_of(samples[begin : begin + PER_HOUR]) for begin in begins] or samples
    return page.render(
        "queue.html",
        "Queue",
        chart=queue_chart(samples),
        hours=hours,
        throughput=throughput_chart(hours, width=CHART_WIDTH),
        waits=wait_chart(hours, width=CHART_WIDTH),
        workers=list_workers(page.services.jobs.store),
        busy=any(sample.waiting or sample.running or sample.completed or sample.failed for sample in samples),
    )


def _sum_of(samples: Sequence[QueueSample]) -> QueueSample:
    """Return the last of successive samples with what happened up to each of them."""
    return replace(
        samples[-1],
        completed=sum(each.completed for each in samples),
        failed=sum(each.failed for each in samples),
        waits=tuple(sorted(wait for each in samples for wait in each.waits)),
    )


def _samples(page: HtmlPage) -> list[QueueSample]:
    """They are computed from every job of two days, which would be too much for each refresh."""
    state, now = page.request.app.state, page.now
    at, kept = getattr(state, "queue_samples", (None, []))
    if at is None or now - at >= KEPT:
        at, kept = state.queue_samples = now, page.services.jobs.queue_over_time(PERIOD, STEPS)
    return list(kept)


@router.get("/locks")
def locks(page: Here) -> HTMLResponse:
    asked = page.filter("search")
    wanted = asked["search"].lower()
    everything = page.services.jobs.locks.list()
    fitting = [lock for lock in everything if wanted in lock.table.dotted.lower() or wanted in lock.holder.lower()]
    held = [(lock, _job(page, lock)) for lock in fitting[:LOCKS]]
    return page.render_list(
        "locks.html", "Locks", asked, (held, None), narrowed=bool(everything), fitting=len(fitting), everything=len(everything)
    )


def _job(page: HtmlPage, lock: TableLock) -> Job | None:
    """Return the job that owns the lock; ``None`` when it is not a job's, or the job was deleted."""
    try:
        return page.services.jobs.get(lock.holder) if locked_by_job(lock) else None
    except JobNotFound:
        return None


@router.get("/audit")
def audit(page: Here) -> HTMLResponse:
    asked = page.filter("subject", "actor")
    trail, subject, actor = AuditTrail(page.services.jobs.store), asked["subject"].lower(), asked["actor"].lower()

    def fits(entry: AuditEntry) -> bool:
        about = f"{entry.subject}\n{entry.detail.get('table', '')}".lower()
        return subject in about and actor in entry.actor.lower()

    found = search_pages(
        lambda place, limit: trail.latest(limit, place),
        lambda entry: entry.id,
        fits,
        after=page.number("cursor"),
        limit=PAGE,
        batch=PAGE,
        at_most=SEARCH_LIMIT,
    )
    return page.render_list(
        "audit.html",
        "Audit trail",
        asked,
        (found.items, found.next),
        searched=found.searched,
        is_job=ID.fullmatch,
    )
