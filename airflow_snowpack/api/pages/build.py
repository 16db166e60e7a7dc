"""The page of one dataset: what readers see, its runs, the moves of its pointer, and what cleanup would delete."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.build_parameters import MOST_RUNS, checked_run
from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.pages.audit import WORDS
from airflow_snowpack.api.pages.page import Here, Page, PageRoute
from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import DatasetNotFound
from airflow_snowpack.builds.manager import BuildManager
from airflow_snowpack.builds.model import CleanupAction, CleanupPhase, Retention
from airflow_snowpack.builds.registry.publications import audit_subject
from airflow_snowpack.builds.run_inspection import can_roll_back_to
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.store import AuditTrail

RUNS = 50
MOVES = 20
CHANGES = 20
SHOWN_ACTIONS = 200
PHASES = {
    CleanupPhase.LOSERS: "Losing attempts",
    CleanupPhase.STALE_ATTEMPTS: "Failed and abandoned runs",
    CleanupPhase.OLD_RUNS: "Old runs",
}

router = APIRouter(route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Plan:
    """What cleanup would delete.

    :param query: what to send for exactly this.
    """

    actions: tuple[CleanupAction, ...]
    query: str

    @property
    def shown(self) -> Sequence[CleanupAction]:
        return self.actions[:SHOWN_ACTIONS]

    @property
    def objects(self) -> int:
        return sum(action.objects or 0 for action in self.actions)

    @property
    def bytes(self) -> int:
        return sum(action.bytes or 0 for action in self.actions)


@router.get("/builds/{dataset}")
def build(dataset: str, page: Here) -> HTMLResponse:
    manager = page.services.builds()
    known = manager.registry.dataset(checked_dataset(dataset))
    before = page.asked("before")
    found = manager.registry.runs(dataset, limit=RUNS, before=checked_run(dataset, before) if before else None)
    asked = {"keep_runs": page.asked("keep_runs") or "7", "stale_attempt_age": page.asked("stale_attempt_age") or "1d"}
    return page.render(
        "build.html",
        f"Dataset {dataset}",
        known=known,
        runs=found.items,
        before=before,
        next=found.next,
        can_roll_back_to=can_roll_back_to,
        moves=manager.registry.publications(dataset, limit=MOVES),
        asked=asked,
        plan=_plan(page, manager, dataset, asked) if page.asked("plan") else None,
        phases=PHASES,
        words=WORDS,
        audit=AuditTrail(page.services.jobs.store).latest(CHANGES, subject=audit_subject(dataset)),
    )


def checked_dataset(name: str) -> str:
    """:raises DatasetNotFound: no dataset can be called so."""
    if len(name) > layout.MAX_NAME or not layout.DATASET.fullmatch(name):
        raise DatasetNotFound(name)
    return name


def _plan(page: Page, manager: BuildManager, dataset: str, asked: dict[str, str]) -> Plan:
    keep = asked["keep_runs"]
    if not (keep.isascii() and keep.isdigit() and 1 <= int(keep) <= MOST_RUNS):
        raise InvalidRequest.at("keep_runs", f"it must be a whole number from 1 to {MOST_RUNS}")
    try:
        retention = Retention(int(keep), parse_duration(asked["stale_attempt_age"]))
    except ValueError as error:
        raise InvalidRequest.at("stale_attempt_age", f"it {error}") from None
    actions = page.services.ask_storage(dataset, lambda: manager.cleanup(dataset, retention, actor=None))
    return Plan(tuple(actions), urlencode(asked))
