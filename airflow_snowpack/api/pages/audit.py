"""The page of the audit trail: who did what, newest first."""

from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.locks import JOB_ID
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.store import AuditEntry, AuditTrail

PAGE = 100
LOOKED_AT = 2_000
"""How many entries one request searches at most."""

WORDS = {
    "submit": "submitted",
    "dry_run": "ran dry",
    "rerun": "ran again",
    "cancel": "cancelled",
    "delete": "deleted",
    "prune": "deleted old rows of",
    "drain_on": "switched drain mode on",
    "drain_off": "switched drain mode off",
    "drain_reason": "changed the reason of drain mode",
    "release_lock": "released the lock of",
    "sweep": "swept",
    "create_schedule": "created",
    "update_schedule": "changed",
    "delete_schedule": "deleted",
    "suspend_schedule": "suspended",
    "resume_schedule": "resumed",
    "run_schedule": "ran",
    "register_run": "registered",
    "update_run": "changed",
    "unregister_run": "unregistered",
    "enable_run": "enabled",
    "disable_run": "disabled",
    "run_registered": "ran",
    "send_event": "sent",
    "publish_build": "published",
    "rollback_build": "rolled back",
    "cleanup_builds": "cleaned up",
    "drop_interim": "released",
    "forget_interim": "took off the record",
    "collect_interim": "collected",
    "sweep_interim": "swept",
    "adopt_interim": "taken over",
}

router = APIRouter(route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Trail:
    """A page of entries.

    :param next: before which entry the next page goes on; ``None`` when there is none.
    """

    entries: tuple[AuditEntry, ...]
    next: int | None
    looked_at: int


@router.get("/audit")
def audit(page: Here) -> HTMLResponse:
    asked = {name: page.asked(name) for name in ("subject", "actor")}
    before = page.asked("before")
    start = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    return page.render(
        "audit.html",
        "Audit trail",
        trail=find(AuditTrail(page.services.jobs.store), asked["subject"], asked["actor"], start),
        asked=asked,
        before=start,
        words=WORDS,
        is_job=lambda subject: JOB_ID.fullmatch(subject) is not None,
        url=lambda **changes: urlencode({name: value for name, value in (asked | changes).items() if value}),
    )


def find(trail: AuditTrail, subject: str, actor: str, before: int | None) -> Trail:
    """Look back until a page is full, but not for ever.

    :param subject: part of what was changed: a job's id, a table's name, ``drain``.
    :param actor: part of who did it.
    """
    chosen: list[AuditEntry] = []
    looked_at = 0
    while looked_at < LOOKED_AT:
        entries = trail.latest(PAGE + 1, before)
        more, entries = len(entries) > PAGE, entries[:PAGE]
        for entry in entries:
            looked_at, before = looked_at + 1, entry.id
            if _fits(entry, subject.lower(), actor.lower()):
                chosen.append(entry)
            if len(chosen) == PAGE:
                return Trail(tuple(chosen), before if more or entry != entries[-1] else None, looked_at)
        if not more:
            return Trail(tuple(chosen), None, looked_at)
    return Trail(tuple(chosen), before, looked_at)


def _fits(entry: AuditEntry, subject: str, actor: str) -> bool:
    about = f"{entry.subject}\n{entry.detail.get('table', '')}".lower()
    return subject in about and actor in entry.actor.lower()
