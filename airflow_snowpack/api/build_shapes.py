"""The shapes of builds, as ``shapes.py`` has them for jobs and tables."""

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from airflow_snowpack.api.shapes import Moment, Shape
from airflow_snowpack.builds.model import (
    CleanupPhase,
    KeyType,
    ShardFormat,
    ShardingKind,
)
from airflow_snowpack.builds.registry.model import RunStatus

RUN_ID = "20260425T000000Z"


class RollbackBody(Shape):
    """Which build readers shall see."""

    model_config = ConfigDict(json_schema_extra={"example": {"to": "-1"}})

    to: str = Field(
        description="A run's id, a manifest's path, or `-1` for the published build before the current one.",
        min_length=1,
        max_length=500,
    )


class DatasetShape(Shape):
    """A dataset that is built."""

    dataset: str = Field(examples=["flights_by_tail"])
    url: str = Field(description="The folder of its builds.")
    created_at: datetime
    publication: int | None = Field(description="Counts the moves of its pointer; null before the first.")
    current_run: str | None = Field(description="The run that readers see.")
    moved_at: Moment = Field(description="Since when they see it.")
    newest_as_of: Moment = Field(description="The newest data that was ever current; older runs go into history.")
    held_by: str | None = Field(description="Who publishes, rolls back or cleans up at the moment.")
    held_until: Moment


class DatasetsShape(Shape):
    """Datasets by their names."""

    datasets: list[DatasetShape]
    next: str | None = Field(description="What to give as `after` for the next page.")


class RunShape(Shape):
    """A run: one build of the dataset, or the try of one."""

    dataset: str
    run_id: str = Field(examples=[RUN_ID])
    current: bool = Field(description="Readers see this one.")
    status: RunStatus = Field(description="`succeeded` is published, perhaps into history only.")
    as_of: datetime = Field(description="The moment that its data is of.")
    sequence: int = Field(description="Counts the dataset's runs; of two runs of one moment the higher is newer.")
    owner: str | None = Field(description="Whose tries these are, such as a task instance.")
    holder: str | None
    lease_until: Moment
    started_at: datetime
    finished_at: Moment
    num_shards: int
    rows: int | None
    bytes: int | None
    error: str | None
    manifest: str | None = Field(description="The path of its manifest, relative to the dataset's folder.")
    losers_left: bool = Field(description="Cleanup has not looked for losing attempts yet.")
    deleted_at: Moment = Field(description="Since when cleanup deletes, or has deleted, it.")


class PublicationShape(Shape):
    """A move of the pointer."""

    publication: int
    run_id: str
    kind: Literal["publish", "rollback", "repair"]
    manifest: str
    at: datetime
    by: str | None


class DatasetRunsShape(DatasetShape):
    """A dataset, its newest moves, and its runs with the newest data first."""

    publications: list[PublicationShape]
    runs: list[RunShape]
    next: str | None = Field(description="What to give as `before` for the next page of runs.")


class ColumnShape(Shape):
    """A column and its Arrow type."""

    name: str
    type: str


class KeyShape(Shape):
    """What rows are found by."""

    column: str
    type: KeyType


class ShardingShape(Shape):
    """How rows find their shards."""

    kind: ShardingKind
    column: str | None
    sql: str | None


class BuildShape(Shape):
    """What the manifest says of the build as a whole."""

    key: KeyShape
    sharding: ShardingShape
    shard_format: ShardFormat
    columns: list[ColumnShape]
    sources: list[dict[str, Any]]
    created_at: datetime
    previous: str | None = Field(description="The manifest that was served before it.")


class WinnerShape(Shape):
    """The attempt that counts."""

    url: str | None
    attempt: int
    task_attempt_id: int | None
    rows: int
    bytes: int
    min_key: str | None = Field(description="As text; bytes in hexadecimal.")
    max_key: str | None
    checksum: str | None


class AttemptShape(Shape):
    """What stands in one attempt's folder."""

    folder: str
    attempt: int
    complete: bool = Field(description="It succeeded: its record is there.")
    won: bool | None = Field(description="Null while there is no manifest.")
    objects: int
    bytes: int


class ShardShape(Shape):
    """A shard and the attempts at it."""

    shard_id: int
    winner: WinnerShape | None
    attempts: list[AttemptShape]


class RunSeenShape(RunShape):
    """A run with a page of its shards."""

    problem: str | None = Field(description="Why its manifest cannot be read.")
    build: BuildShape | None
    shards: list[ShardShape]
    next: int | None = Field(description="What to give as `after` for the next page of shards.")


class OutcomeShape(Shape):
    """How a publication or a rollback ended."""

    dataset: str
    run_id: str
    manifest: str
    moved: bool = Field(description="The pointer stands on this run now.")
    publication: int | None
    reason: str | None = Field(description="Why it was not moved.")
    recorded: bool = Field(description="False: it is served, and the store will learn of it with the next publication.")


class CleanupActionShape(Shape):
    """One deletion, planned or done."""

    phase: CleanupPhase
    run_id: str
    shard_id: int | None
    path: str = Field(description="A folder of the run, relative to the dataset's folder.")
    reason: str
    objects: int | None
    bytes: int | None
    error: str | None = Field(description="Why it could not be deleted; the next cleanup finds it again.")


class CleanupShape(Shape):
    """What cleanup deleted, or would delete."""

    dataset: str
    dry_run: bool
    done: bool = Field(description="False: it goes on in the background.")
    actions: list[CleanupActionShape]
    objects: int
    bytes: int
    failed: int
