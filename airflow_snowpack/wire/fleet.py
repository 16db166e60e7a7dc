"""Passes over the fleet, and the tables in them."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from airflow_snowpack.humanize import SHORT_ID
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry, PassState
from airflow_snowpack.maintenance.planning import Estimate
from airflow_snowpack.wire.listing import Column, Elapsed, Listing
from airflow_snowpack.wire.plan import work
from airflow_snowpack.wire.shape import CatalogId, Database, From, Level, Moment, Shape


class PassShape(Shape):
    """A pass over the tables of a catalog."""

    pass_id: str = Field(examples=["4f1c2b9a6d0e4c7f8a3b5d1e9c2f7a60"])
    owner: str = Field(description="The task instance that planned it.", examples=["snowpack_maintain_fleet/scheduled__1/plan"])
    catalog: str = Field(examples=["lake"])
    catalog_id: CatalogId
    state: PassState
    budget: Annotated[dict[str, Any], From(lambda pass_: pass_.budget.to_json())] = Field(description="Null: no limit.")
    workers: int = Field(description="How many tables are maintained at a time.")
    started_at: datetime
    planned_at: Moment
    ended_at: Moment
    counts: dict[str, int] = Field(description="Tables that were `listed`, `unchanged`, `healthy` and so on.")
    report: dict[str, Any] | None = Field(description="Null until the pass was reported.")


def _outcome_body(entry: PassEntry) -> dict[str, float] | None:
    if entry.spent is None:
        return None
    spent = entry.spent
    work = {"files_removed": spent.files_removed, "bytes": spent.bytes_rewritten}
    return work | {"gb_hours": spent.gb_hours, "seconds": spent.seconds}


class PassEntryShape(Shape):
    """A table of a pass that needs maintenance or cannot be read."""

    database: Annotated[Database, From("table.database")]
    table_name: Annotated[Level, From("table.table")]
    place: int = Field(description="In the order of the pass, from 0.")
    state: EntryState
    reason: str | None = Field(description="Why it waits, failed or cannot be read.")
    evidence: dict[str, str] = Field(description="Why each action runs, by its name.")
    gb_hours: Annotated[float, From("estimate.gb_hours")] = Field(description="By estimate.")
    bytes: Annotated[int, From("estimate.bytes_rewritten")] = Field(description="That are rewritten, by estimate.")
    files_removed: Annotated[int, From("estimate.files_removed")] = Field(
        description="By estimate, with those that only old snapshots need."
    )
    files_saved: int = Field(description="How many files fewer readers open, by estimate. The order of a pass follows them.")
    bytes_freed: Annotated[int, From("estimate.bytes_freed")] = Field(description="In the storage, by estimate.")
    seconds: Annotated[float, From("estimate.seconds")] = Field(description="By estimate.")
    outcome: Annotated[dict[str, float] | None, From(_outcome_body)] = Field(
        description="What its job did, by the names of the estimate; null until it has ended."
    )
    deadline: Moment
    passes_waited: int = Field(description="In how many passes before this one it did not fit.")
    job_id: str | None


def _outcome(planned: Pass) -> str | None:
    counts = (planned.report or {}).get("counts")
    return counts and f"{counts['maintained']} maintained, {counts['failed']} failed, {counts['waiting']} waiting"


def _work(cost: Estimate | None) -> str:
    if cost is None or cost == Estimate():
        return ""
    return work(replace(cost, files_added=0, bytes_freed=0, snapshots_expired=0))


PASSES: Listing[Pass] = Listing(
    "passes",
    PassShape.encode,
    (
        Column("pass", "pass_id", lambda planned: planned.pass_id[:SHORT_ID]),
        Column("started", "started_at"),
        Column("state", "state.value"),
        Column("took", lambda planned: planned.ended_at and Elapsed(planned.started_at, planned.ended_at)),
        Column("tables", lambda planned: planned.counts.get("listed", 0)),
        Column("outcome", _outcome),
        Column("owner", "owner"),
    ),
)

ENTRIES: Listing[PassEntry] = Listing(
    "tables",
    PassEntryShape.encode,
    (
        Column("table", "table.dotted"),
        Column("state", "state.value", state="state"),
        Column("actions", lambda entry: tuple(entry.evidence)),
        Column("estimate", "estimate.gb_hours", lambda entry: _work(entry.estimate)),
        Column("outcome", lambda entry: entry.spent and entry.spent.gb_hours, lambda entry: _work(entry.spent)),
        Column("reason", "reason"),
    ),
)
