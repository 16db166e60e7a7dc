"""The shapes of interim tables, as ``shapes.py`` has them for jobs and tables."""

from datetime import datetime

from pydantic import Field

from airflow_snowpack.api.shapes import Moment, Shape
from airflow_snowpack.interim.explanation import Outlook
from airflow_snowpack.interim.model import TableState
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.preservation import Preservation

TABLE_ID = "5d2a91bc04de4f6f8d3c7e1b9a0f2c46"


class InterimProducerShape(Shape):
    """The try of a task instance that made a table."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = Field(description="-1 for a task that is not mapped.")
    output: str = Field(description="Which of the task's outputs it is.")
    try_number: int


class InterimTableShape(Shape):
    """A table that one task hands to others."""

    table_id: str = Field(examples=[TABLE_ID])
    table: str = Field(examples=["lake.snowpack_interim.flights_clean_5d2a91bc04de4f6f8d3c"])
    state: TableState = Field(description="`writing` until it is handed on; `dropping` is going, or has failed to.")
    outlook: Outlook = Field(description="What the collector's next pass makes of it, unless Airflow tells it something new.")
    because: list[str] = Field(description="Why, in sentences.")
    producer: InterimProducerShape
    created_at: datetime
    ready_at: Moment = Field(description="Since when others may read it.")
    snapshot_id: int | None
    rows: int | None
    location: str | None = Field(description="The table's folder, where it is known.")
    needed_by: list[str] = Field(description="Consumers that have not finished for good: `dag/run/task`.")
    readers: int = Field(description="How many tasks are reading it.")
    silent_readers: int = Field(
        description="How many tasks that were reading it no longer report, such as one that was killed. "
        "They hold it until their lease is over and Airflow says that they have ended."
    )
    preservation: Preservation
    name: str | None = Field(description="What it was named when it was handed on.")
    scope: Scope | None = Field(description="Where that name is known.")
    named: bool = Field(description="The name means this table now.")
    expires_at: Moment = Field(description="Until when it is preserved, or keeps a global name; null is without end.")
    held_until: Moment = Field(description="Until when its writer, or the collector that drops it, holds it at least.")
    looked_at_next: Moment = Field(description="When the collector looks at its DAG run next; null is when something happens.")
    drops: int = Field(description="How often it was tried to drop it.")
    error: str | None = Field(description="Why the last try failed.")


class InterimTablesShape(Shape):
    """Interim tables, the newest first."""

    tables: list[InterimTableShape]
    next: str | None = Field(description="What to give as `cursor` for the next page.")
