"""Interim tables."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from airflow_snowpack.interim.collection.model import Collected, TableToDrop
from airflow_snowpack.interim.collection.sweeper import SweepAction
from airflow_snowpack.interim.explanation import Outlook, explain
from airflow_snowpack.interim.model import InterimTable, TableState
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import Body, From, Moment, Shape, page_shape, plain

TABLE_ID = "5d2a91bc04de4f6f8d3c7e1b9a0f2c46"
CONSUMERS_SHOWN = 3


class InterimProducerShape(Shape):
    """The task instance that wrote a table."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = Field(description="-1 for a task that is not mapped.")
    output: str = Field(description="Which of the task's outputs it is.")
    try_number: int


class InterimTableShape(Shape):
    """A table that one task passes to others."""

    table_id: str = Field(examples=[TABLE_ID])
    table: Annotated[str, From(lambda table: str(table.table))] = Field(
        examples=["lake.snowpack_interim.flights_clean_5d2a91bc04de4f6f8d3c"]
    )
    state: TableState = Field(description="`writing` until its task has finished it; `dropping` while it is being dropped.")
    outlook: Outlook = Field(description="What the collector does with it next, unless Airflow reports a change.")
    because: list[str] = Field(description="Why, in sentences.")
    producer: Annotated[InterimProducerShape, From(lambda table: {**table.producer.to_json(), "try_number": table.try_number})]
    created_at: datetime
    ready_at: Moment = Field(description="Since when others may read it.")
    snapshot_id: int | None
    rows: int | None
    location: str | None = Field(description="The table's folder, where it is known.")
    needed_by: Annotated[list[str], From("pins")] = Field(
        description="Consumers that have not finished for good: `dag/run/task`."
    )
    readers: int = Field(description="How many tasks are reading it.")
    silent_readers: int = Field(
        description="How many tasks that were reading it no longer report, such as one that was killed. "
        "They keep it until their lease expires and Airflow reports that they have ended."
    )
    preservation: Preservation
    name: str | None = Field(description="The name that its task gave it.")
    scope: Scope | None = Field(description="Where that name is known.")
    named: Annotated[bool, From("is_named")] = Field(description="The name refers to this table now.")
    expires_at: Moment = Field(description="Until when it is preserved, or keeps a global name; null for no end.")
    held_until: Annotated[Moment, From("lease_until")] = Field(
        description="When the lease of its writer, or of the collector that drops it, expires."
    )
    next_check_at: Annotated[Moment, From("check_at")] = Field(
        description="When the collector checks its DAG run next; null for when something happens."
    )
    drops: int = Field(description="How many times the collector tried to drop it.")
    error: str | None = Field(description="Why the last try failed.")


InterimTablesShape = page_shape("InterimTablesShape", "Interim tables, newest first.", "tables", InterimTableShape)


def interim_body(table: InterimTable, now: datetime) -> Body:
    """Return the JSON of an interim table, with what the collector does with it next and why."""
    explanation = explain(table, now)
    return InterimTableShape.encode(table, outlook=explanation.outlook, because=[str(reason) for reason in explanation.reasons])


class DroppedShape(Shape):
    """A table that the collector dropped, or would drop."""

    table_id: str
    table: Annotated[str, From(lambda table: str(table.table))]
    rows: int | None
    producer: Annotated[dict[str, Any], From(lambda table: table.producer.to_json())]


def collected_body(collected: Collected, *, dry_run: bool) -> Body:
    return {
        "dry_run": dry_run,
        "runs": collected.runs,
        "dropped": [DroppedShape.encode(each) for each in collected.dropped],
        "failed": [{"table": str(each.table.table), "error": each.reason} for each in collected.failed],
        "missing": [{"table": str(each.table.table), "why": each.reason} for each in collected.missing],
        "kept": collected.kept,
        "next_check_at": plain(collected.next_check_at),
    }


class SweptShape(Shape):
    """A table or folder that the sweeper dropped, or would drop."""

    kind: str
    name: str
    location: str | None
    last_written: Annotated[Moment, From("since")]
    error: str | None


def interim_state(table: InterimTable) -> str:
    """Return the state of a table for people."""
    return f"{table.state.value}{', failed' if table.error else ''}"


def worst_state(table: InterimTable) -> str:
    """Return the state of a table, or ``failed`` if its last drop has failed."""
    return "failed" if table.error else table.state


def _needed_by(table: InterimTable) -> str:
    """Return the tasks alone: their DAG run is in another column."""
    tasks = ", ".join(pin.rpartition("/")[2] for pin in table.pins[:CONSUMERS_SHOWN])
    return tasks + (" …" if len(table.pins) > CONSUMERS_SHOWN else "")


def _preserved(table: InterimTable) -> object:
    return None if table.preservation is Preservation.NONE else table.expires_at or "yes"


def interim_tables(now: datetime) -> Listing[InterimTable]:
    """Return how a list of interim tables is written; what the collector does next depends on the time."""
    return Listing(
        "tables",
        lambda table: interim_body(table, now),
        (
            Column("table", lambda table: str(table.table), "table.table"),
            Column("state", "state", interim_state, state=worst_state),
            Column("made by", lambda table: str(table.producer)),
            Column("rows", "rows"),
            Column("started", "created_at"),
            Column("needed by", lambda table: ",".join(table.pins), _needed_by),
            Column("readers", "readers", lambda table: table.readers or None),
            Column("preserved", "preservation", _preserved),
            Column("outlook", lambda table: explain(table, now).outlook),
        ),
        noun="interim tables",
    )


DROPPED: Listing[TableToDrop] = Listing(
    "dropped",
    DroppedShape.encode,
    (
        Column("table", lambda table: str(table.table)),
        Column("rows", "rows"),
        Column("made by", lambda table: str(table.producer)),
    ),
)
SWEPT: Listing[SweepAction] = Listing(
    "swept",
    SweptShape.encode,
    (
        Column("kind", "kind"),
        Column("name", "name"),
        Column("last written", "since"),
        Column("location", "location"),
        Column("problem", "error"),
    ),
)
