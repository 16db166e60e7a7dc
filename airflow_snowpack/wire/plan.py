"""Plans: what a table needs now, and why."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from airflow_snowpack.humanize import duration, number, plural, size
from airflow_snowpack.jobs.action_history import ActionFigures
from airflow_snowpack.maintenance.planning import Cause, Decision, Estimate, TablePlan
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import Database, From, Level, Moment, Shape

NOW = "now"
LEAST_GB_HOURS = 0.005
"""Less is not shown."""


class EstimateShape(Shape):
    """What an action takes, by estimate."""

    files_removed: int
    files_added: int
    bytes_rewritten: int
    bytes_freed: int
    snapshots_expired: int
    gb_hours: float = Field(description="GB of memory times hours of Spark work.")
    seconds: float


class DecisionShape(Shape):
    """What the plan does with one action, and why."""

    action: str
    verdict: Literal["run", "skip"]
    cause: Annotated[str, Field(json_schema_extra={"enum": [cause.value for cause in Cause]})]
    evidence: str = Field(examples=["847 of 1,284 files below 384.0 MiB in 3 of 90 partitions; threshold 100"])
    metrics: dict[str, int | float] = Field(description="The numbers of the evidence by name.")
    estimate: EstimateShape | None = Field(description="Null when the action is skipped.")
    options: dict[str, Any] = Field(description="The action's options; a predicate that selects the partitions is among them.")
    reconsider_at: Moment = Field(description="When a skip may change without a commit to the table; null: it may not.")


class PlanShape(Shape):
    """What a table needs now, from its metadata and its policy."""

    database: Annotated[Database, From("table.database")]
    table_name: Annotated[Level, From("table.table")]
    metadata_location: str
    made_at: datetime
    score: int = Field(description="The table's health, from 0 (sick) to 100 (healthy).", ge=0, le=100)
    decisions: list[DecisionShape] = Field(description="One for each action, in the order in which they run.")


def work(amount: Estimate | ActionFigures | None) -> str:
    """Return what an action removes, rewrites and takes, by estimate or in fact; nothing where that is not known."""
    if amount is None:
        return ""
    freed, gb_hours = amount.bytes_freed if isinstance(amount, Estimate) else 0, amount.gb_hours or 0
    parts = (
        f"{plural(amount.files_removed, 'file')} removed" if amount.files_removed else "",
        f"{number(amount.files_added)} added" if amount.files_added else "",
        f"{size(amount.bytes_rewritten)} rewritten" if amount.bytes_rewritten else "",
        f"{size(freed)} freed" if freed else "",
        f"{plural(amount.snapshots_expired, 'snapshot')} expired" if amount.snapshots_expired else "",
        duration(amount.seconds),
        f"{gb_hours:.2f} GB·h" if gb_hours >= LEAST_GB_HOURS else "",
    )
    return ", ".join(part for part in parts if part)


DECISIONS: Listing[Decision] = Listing(
    "decisions",
    DecisionShape.encode,
    (
        Column("action", "action"),
        Column("verdict", "verdict", state="verdict"),
        Column("evidence", "evidence"),
        Column("estimate", lambda decision: decision.estimate and decision.estimate.seconds, lambda each: work(each.estimate)),
        Column("reconsidered", "reconsider_at"),
    ),
)
PLANS: Listing[TablePlan] = Listing("plans", PlanShape.encode, (Column("table", "table.dotted"), Column("score", "score")))
