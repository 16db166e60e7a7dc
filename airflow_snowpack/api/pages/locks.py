"""The page of locks: who holds which table, since when, until when, and for whom."""

import re
from dataclasses import dataclass

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, Page, PageRoute
from airflow_snowpack.jobs import Job, JobNotFound, TableLock

SHOWN = 200
JOB_ID = re.compile(r"[0-9a-f]{32}")

router = APIRouter(route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Held:
    """A lock.

    :param job: the job that owns the lock; ``None`` when it is not a job's, or the job was deleted.
    """

    lock: TableLock
    job: Job | None


@router.get("/locks")
def locks(page: Here) -> HTMLResponse:
    search = page.asked("search")
    wanted = search.lower()
    everything = page.services.jobs.locks.list()
    fitting = [lock for lock in everything if wanted in lock.table.dotted.lower() or wanted in lock.holder.lower()]
    held = [Held(lock, _job(page, lock)) for lock in fitting[:SHOWN]]
    return page.render("locks.html", "Locks", held=held, search=search, fitting=len(fitting), everything=len(everything))


def _job(page: Page, lock: TableLock) -> Job | None:
    if not JOB_ID.fullmatch(lock.holder):
        return None
    try:
        return page.services.jobs.get(lock.holder)
    except JobNotFound:
        return None
