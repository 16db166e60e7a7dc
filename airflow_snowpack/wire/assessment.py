"""An assessment of a catalog: its tables by need."""

from typing import Annotated

from pydantic import Field

from airflow_snowpack.humanize import size
from airflow_snowpack.inventory import Condition
from airflow_snowpack.maintenance.assessment import TableAssessment
from airflow_snowpack.maintenance.assessment.model import State
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.plan import EstimateShape
from airflow_snowpack.wire.shape import From, Moment, Shape


class LeftOutShape(Shape):
    """A table that is not listed, or a namespace, as `namespace.*`."""

    name: str = Field(examples=["sales.2024 totals"])
    reason: str


class ScorePartShape(Shape):
    """A part of a table's score."""

    name: str = Field(examples=["file_sizes"])
    points: int
    of: int = Field(description="The points of a healthy table.")
    evidence: str = Field(description="The numbers behind it.")


class NeededActionShape(Shape):
    """An action that a table needs, and what it would do."""

    action: str
    evidence: str
    estimate: EstimateShape


class TableAssessmentShape(Shape):
    """A table, what is wrong with it, what maintenance would save and cost, and what blocks it."""

    table: str = Field(examples=["analytics.page_views"])
    state: State = Field(description="Whether its policy would run an action now.")
    score: int | None = Field(description="From 0 (sick) to 100 (healthy).")
    score_parts: Annotated[list[ScorePartShape], From("parts")]
    metadata_location: str
    files: int = Field(description="Data and delete files now.")
    files_saved: int
    manifests: int = Field(description="Manifests of the current snapshot.")
    manifests_saved: int
    planning_saved: float = Field(
        description="The share of the files and manifests that a query over the whole table plans with, from 0 to 1."
    )
    bytes_freed: Annotated[int, From("estimate.bytes_freed")]
    bytes_rewritten: Annotated[int, From("estimate.bytes_rewritten")]
    needs: list[NeededActionShape]
    blockers: list[str]
    problem: str | None = Field(description="Why the table cannot be read.")


class AssessmentShape(Shape):
    """The tables of a catalog: those that need maintenance first, then unreadable ones, then healthy ones."""

    catalog: str
    made_at: Moment
    tables: Annotated[list[TableAssessmentShape], From("rows")]
    left_out: Annotated[
        list[LeftOutShape], From(lambda found: [{"name": name, "reason": why} for name, why in found.left_out.items()])
    ]


ASSESSED: Listing[TableAssessment] = Listing(
    "tables",
    TableAssessmentShape.encode,
    (
        Column("table", "table"),
        Column("score", "score", state=lambda row: Condition.of(row.score)),
        Column("wrong", lambda row: "; ".join(row.wrong), lambda row: row.wrong[0] if row.wrong else ""),
        Column("saves", lambda row: ", ".join(row.savings)),
        Column("rewritten", "estimate.bytes_rewritten", lambda row: size(row.estimate.bytes_rewritten)),
        Column("blocked by", lambda row: "; ".join(row.blockers)),
    ),
)
UNREADABLE: Listing[TableAssessment] = Listing(
    "tables", TableAssessmentShape.encode, (Column("table", "table"), Column("cannot be read", "problem"))
)
