"""Policies: the values that hold for a table, and the problems of their rules and of table properties."""

from typing import Annotated, Any

from pydantic import Field

from airflow_snowpack.maintenance.policies import PolicyFinding, PolicyValue, Problem
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import From, Shape


class PolicyValueShape(Shape):
    """A value of a table's policy and where it came from."""

    path: str = Field(examples=["expire_snapshots.options.max_age"])
    value: Any = Field(description="Durations are ISO 8601 text.", examples=["P10D"])
    origin: Annotated[str, From(lambda value: value.origin.source)] = Field(
        description="`default`, a rule, or a table property.", examples=["rule 'analytics.*'"]
    )
    file: Annotated[str | None, From(lambda value: value.origin.file or None)] = Field(examples=["policies.yaml"])
    line: Annotated[int | None, From(lambda value: value.origin.line or None)]


class TableProblemShape(Shape):
    """A property of a table that cannot be used."""

    name: str = Field(examples=["snowpack.max_snapshot_age_days"])
    value: str
    message: str


class TablePolicyShape(Shape):
    """The policy of a table."""

    table: Annotated[str, From("table.dotted")] = Field(examples=["analytics.page_views"])
    skip: str | None = Field(description="Why the table gets no maintenance.")
    values: list[PolicyValueShape]
    problems: list[TableProblemShape]


class PolicyFindingShape(Shape):
    """A problem of the policies."""

    problem: Problem
    where: str = Field(description="The file and line of a rule, or a table.", examples=["policies.yaml:12"])
    message: str


def _default(value: PolicyValue) -> str | None:
    return "default" if value.is_default else None


VALUES: Listing[PolicyValue] = Listing(
    "values",
    PolicyValueShape.encode,
    (
        Column("value", "path", state=_default),
        Column("is", "value", "text", state=_default),
        Column("from", lambda value: str(value.origin), state=_default),
    ),
)
FINDINGS: Listing[PolicyFinding] = Listing(
    "problems", PolicyFindingShape.encode, (Column("where", "where"), Column("problem", "problem"), Column("message", "message"))
)
