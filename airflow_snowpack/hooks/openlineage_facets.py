"""OpenLineage's custom facets of maintenance: the health of a table, and the plans and outcomes of jobs.

    maintained = MaintenanceFacets.read(hook, job_ids)
    maintained.of_run()                    # {"snowpack_maintenance": …}
    maintained.before("lake.shop.orders")  # {"snowpack_health": …}, for an input; after(…) for an output

Facets of a dataset replace each other in later events; health, which one run observes, is therefore a facet of the run's input or
output. This module needs OpenLineage's client. The invariant: an event has a bounded number of jobs, and texts of bounded length.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from attrs import define
from openlineage.client.facet_v2 import InputDatasetFacet, OutputDatasetFacet, RunFacet

from airflow_snowpack import __version__
from airflow_snowpack.jobs.action_history import ActionFigures
from airflow_snowpack.wire.job import plan_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.inventory import HealthRecord
    from airflow_snowpack.jobs import ActionResult, Job
    from airflow_snowpack.maintenance.planning import Decision

PRODUCER = f"pkg:pypi/airflow-snowpack@{__version__}"
HEALTH, MAINTENANCE = "snowpack_health", "snowpack_maintenance"
MAX_JOBS = 50
MAX_TEXT = 500


@define(kw_only=True)
class SnowpackHealthInputDatasetFacet(InputDatasetFacet):
    """The health of a table that the run read, before its maintenance.

    :param parts: of the score; empty if only the score is known.
    """

    score: int
    metadataLocation: str  # noqa: N815 - OpenLineage's spelling
    readAt: str  # noqa: N815
    parts: list[dict[str, Any]]


@define(kw_only=True)
class SnowpackHealthOutputDatasetFacet(OutputDatasetFacet):
    """The health of a table that the run wrote, after its maintenance."""

    score: int
    metadataLocation: str  # noqa: N815
    readAt: str  # noqa: N815
    parts: list[dict[str, Any]]


@define(kw_only=True)
class SnowpackMaintenanceRunFacet(RunFacet):
    """The jobs that the run planned or ran: what each action was planned to do and why, and what it did.

    :param jobCount: of all jobs; ``jobs`` has the first :data:`MAX_JOBS`.
    """

    jobCount: int  # noqa: N815
    jobs: list[dict[str, Any]]


@dataclass(frozen=True)
class MaintenanceFacets:
    """The facets of one run.

    :param jobs: at most :data:`MAX_JOBS` of them.
    :param count: how many jobs there are.
    :param health: the stored health, by the full name of the table.
    """

    jobs: Sequence[Job]
    count: int
    health: Mapping[str, HealthRecord]

    @classmethod
    def read(cls, hook: SnowpackHook, job_ids: Collection[str]) -> MaintenanceFacets:
        """Read the jobs, and the stored health of their tables, in two statements."""
        if not job_ids:
            return cls((), 0, {})
        found = hook.jobs().find_all([*job_ids][:MAX_JOBS])
        jobs = [found[job_id] for job_id in job_ids if job_id in found]
        health = hook.installation.health_records.get({job.table for job in jobs})
        return cls(jobs, len(job_ids), {str(table): record for table, record in health.items()})

    def of_run(self) -> dict[str, RunFacet]:
        """Return the facet of the run; empty without a job."""
        if not self.jobs:
            return {}
        jobs = [self._job(job) for job in self.jobs]
        return {MAINTENANCE: SnowpackMaintenanceRunFacet(jobCount=self.count, jobs=jobs, producer=PRODUCER)}

    def before(self, table: str) -> dict[str, InputDatasetFacet]:
        """Return the known health of a table before its job."""
        job = next((job for job in self.jobs if str(job.table) == table), None)
        if values := _health(self._record_before(job)):
            return {HEALTH: SnowpackHealthInputDatasetFacet(**values)}
        plan = plan_of(job) if job else None
        if plan is None:
            return {}
        made_at = plan.made_at.isoformat()
        known = SnowpackHealthInputDatasetFacet(
            score=plan.score, metadataLocation=plan.metadata_location, readAt=made_at, parts=[], producer=PRODUCER
        )
        return {HEALTH: known}

    def after(self, table: str) -> dict[str, OutputDatasetFacet]:
        """Return the health of a table that was read after its last job ended."""
        job = next((job for job in reversed(self.jobs) if str(job.table) == table), None)
        values = _health(self._record_after(job))
        return {HEALTH: SnowpackHealthOutputDatasetFacet(**values)} if values else {}

    def _record_before(self, job: Job | None) -> HealthRecord | None:
        record = job and self.health.get(str(job.table))
        return record if job and record and record.read_at <= (job.started_at or job.submitted_at) else None

    def _record_after(self, job: Job | None) -> HealthRecord | None:
        record = job and self.health.get(str(job.table))
        return record if job and record and job.completed_at and record.read_at >= job.completed_at else None

    def _job(self, job: Job) -> dict[str, Any]:
        plan, results = plan_of(job), {result.action: result for result in job.results}
        before, after = self._record_before(job), self._record_after(job)
        decisions = {} if plan is None else {each.action: each for each in plan.decisions}
        return {
            "jobId": job.job_id,
            "table": str(job.table),
            "status": job.status.value,
            "scoreBefore": plan.score if plan else _health(before).get("score"),
            "scoreAfter": _health(after).get("score"),
            "actions": [_action(each, decisions.get(each), results.get(each)) for each in job.actions],
        }


def _health(record: HealthRecord | None) -> dict[str, Any]:
    if record is None or record.score is None:
        return {}
    parts = [asdict(part) for part in record.score.parts]
    location, read_at = record.metadata_location, record.read_at.isoformat()
    return {"score": record.score.total, "metadataLocation": location, "readAt": read_at, "parts": parts, "producer": PRODUCER}


def _action(name: str, decision: Decision | None, result: ActionResult | None) -> dict[str, Any]:
    """Return what an action was planned to do, and what it did. In a job without a plan, an action was requested."""
    action: dict[str, Any] = {"action": name}
    if decision is not None:
        action |= {"verdict": decision.verdict.value, "cause": decision.cause.value, "evidence": decision.evidence[:MAX_TEXT]}
        action |= {"estimate": _camel(decision.estimate.to_json())} if decision.estimate else {}
    if result is not None:
        done = _camel(asdict(ActionFigures.of(result)))
        action |= {"outcome": result.outcome.value, "message": result.message[:MAX_TEXT], "result": done}
    return action


def _camel(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known values under camel-case names, as OpenLineage spells them."""
    named = {name[0] + name.title().replace("_", "")[1:]: value for name, value in values.items()}
    return {name: value for name, value in named.items() if value is not None}
