"""Builds: datasets, their runs, and the shards of a run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from airflow_snowpack.builds.manager import RunInspection, ShardInspection
from airflow_snowpack.builds.model import CleanupAction, CleanupPhase, Key, KeyType, ShardFormat, ShardingKind
from airflow_snowpack.builds.read.verify import ShardProblem
from airflow_snowpack.builds.registry.model import BuildDataset, BuildRun, RunStatus
from airflow_snowpack.humanize import size
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import Body, From, Moment, Shape, page_shape

RUN_ID = "20260425T000000Z"
ERROR_SHOWN = 60


class RollbackBody(Shape):
    """The build to make current."""

    model_config = ConfigDict(json_schema_extra={"example": {"to": "-1"}})

    to: str = Field(
        description="A run's id, a manifest's path, or `-1` for the published build before the current one.",
        min_length=1,
        max_length=500,
    )


class DatasetShape(Shape):
    """A dataset."""

    dataset: str = Field(examples=["flights_by_tail"])
    url: str = Field(description="The folder of its builds.")
    created_at: datetime
    publication: int | None = Field(description="Counts the changes of the current build; null before the first.")
    current_run: str | None = Field(description="The run that readers see.")
    moved_at: Moment = Field(description="Since when it is current.")
    newest_as_of: Moment = Field(description="The newest data that was ever current; older runs are published into history.")
    held_by: Annotated[str | None, From("locked_by")] = Field(
        description="The process that is publishing, rolling back or cleaning up."
    )
    held_until: Annotated[Moment, From("locked_until")]


DatasetsShape = page_shape("DatasetsShape", "Datasets by name.", "datasets", DatasetShape)


class RunShape(Shape):
    """A run: one build of the dataset, or an attempt at one."""

    dataset: str
    run_id: str = Field(examples=[RUN_ID])
    current: bool = Field(description="Readers see this one.")
    status: RunStatus = Field(description="`succeeded` is published, perhaps into history only.")
    as_of: datetime = Field(description="The point in time of its data.")
    sequence: int = Field(description="Counts the dataset's runs; of two runs with the same `as_of` the higher one is newer.")
    owner: str | None = Field(description="What started it, such as a task instance.")
    holder: str | None
    lease_until: Moment
    started_at: datetime
    finished_at: Moment
    num_shards: int
    rows: int | None
    bytes: int | None
    error: str | None
    manifest: str | None = Field(description="The path of its manifest, relative to the dataset's folder.")
    losers_left: bool = Field(description="Cleanup has not checked it for losing attempts yet.")
    deleted_at: Moment = Field(description="When cleanup began to delete it.")


class PublicationShape(Shape):
    """A change of the current build."""

    publication: Annotated[int, From("number")]
    run_id: str
    kind: Literal["publish", "rollback", "repair"]
    manifest: str
    at: datetime
    by: str | None


class DatasetRunsShape(DatasetShape):
    """A dataset, its newest publications, and its runs with the newest data first."""

    publications: list[PublicationShape]
    runs: list[RunShape]
    next: str | None = Field(description="The `cursor` of the next page of runs.")


class ColumnShape(Shape):
    """A column and its Arrow type."""

    name: Annotated[str, From(lambda column: column[0])]
    type: Annotated[str, From(lambda column: column[1])]


class KeyShape(Shape):
    """The key of a row."""

    column: Annotated[str, From("key_column")]
    type: Annotated[KeyType, From("key_type")]


class ShardingShape(Shape):
    """How rows are assigned to shards."""

    kind: ShardingKind
    column: str | None
    sql: str | None


class BuildShape(Shape):
    """The manifest, without its shards."""

    key: Annotated[KeyShape, From(lambda manifest: manifest)]
    sharding: ShardingShape
    shard_format: ShardFormat
    columns: Annotated[list[ColumnShape], From(lambda manifest: list(manifest.columns))]
    sources: list[dict[str, Any]]
    created_at: datetime
    previous: str | None = Field(description="The manifest of the build that was current before.")


class WinnerShape(Shape):
    """The attempt that counts."""

    url: str | None
    attempt: int
    task_attempt_id: int | None
    rows: int
    bytes: int
    min_key: Annotated[str | None, From(lambda winner: key_text(winner.min_key))] = Field(
        description="As text; bytes in hexadecimal."
    )
    max_key: Annotated[str | None, From(lambda winner: key_text(winner.max_key))]
    checksum: str | None


class AttemptShape(Shape):
    """The folder of an attempt."""

    folder: str
    attempt: int
    complete: bool = Field(description="It succeeded: its record is there.")
    won: bool | None = Field(description="Null while there is no manifest.")
    objects: int
    bytes: int


class ShardShape(Shape):
    """A shard, the attempt that counts, and all attempts that are in the storage."""

    shard_id: int
    winner: WinnerShape | None
    attempts: list[AttemptShape]


class RunSeenShape(RunShape):
    """A run with a page of its shards."""

    problem: str | None = Field(description="Why its manifest cannot be read.")
    build: BuildShape | None
    shards: list[ShardShape]
    next: int | None = Field(description="The `cursor` of the next page of shards.")


class PublishOutcomeShape(Shape):
    """The result of a publication or a rollback."""

    dataset: str
    run_id: str
    manifest: str
    moved: bool = Field(description="This run is current now.")
    publication: int | None
    reason: str | None = Field(description="Why it was not made current.")
    recorded: bool = Field(description="False: it is current, and the next publication or cleanup records it in the store.")


class CleanupActionShape(Shape):
    """A deletion, planned or done."""

    phase: CleanupPhase
    run_id: str
    shard_id: int | None
    path: str = Field(description="A folder of the run, relative to the dataset's folder.")
    reason: str
    objects: int | None
    bytes: int | None
    error: str | None = Field(description="Why it could not be deleted; the next cleanup tries it again.")


class CleanupShape(Shape):
    """What cleanup deleted, or would delete."""

    dataset: str
    dry_run: bool
    done: bool = Field(description="False: it continues in the background.")
    actions: list[CleanupActionShape]
    objects: int
    bytes: int
    failed: int


class ProblemShardShape(Shape):
    """A shard that is not what was written."""

    shard_id: int
    path: str | None
    problem: str


class VerificationShape(Shape):
    """The result of reading a build back."""

    dataset: str
    run_id: str
    manifest: str
    shards: int
    rows: int
    bytes: int
    problems: list[ProblemShardShape]


def run_body(run: BuildRun, current_run: str | None) -> Body:
    """Return the JSON of a run; ``current_run`` is the one that readers see."""
    return RunShape.encode(run, current=run.run_id == current_run)


def seen_body(seen: RunInspection, current_run: str | None) -> Body:
    return RunSeenShape.encode(
        seen.run,
        current=seen.run.run_id == current_run,
        problem=seen.problem,
        build=seen.manifest,
        shards=seen.shards,
        next=seen.shards[-1].shard_id if seen.more and seen.shards else None,
    )


def cleanup_body(dataset: str, actions: Sequence[CleanupAction], *, dry_run: bool, done: bool = True) -> Body:
    return CleanupShape.encode(
        None,
        dataset=dataset,
        dry_run=dry_run,
        done=done,
        actions=actions,
        objects=sum(action.objects or 0 for action in actions),
        bytes=sum(action.bytes or 0 for action in actions),
        failed=sum(action.error is not None for action in actions),
    )


def key_text(key: Key | None) -> str | None:
    """Return a key for people; bytes in hexadecimal."""
    return None if key is None else key.hex() if isinstance(key, bytes) else str(key)


def run_status(run: BuildRun, current_run: str | None) -> str:
    """Return the status of a run for people."""
    if run.deleted_at is not None:
        return f"{run.status.value}, cleaned up"
    if run.run_id == current_run:
        return "current"
    return "published" if run.status.value == "succeeded" else run.status.value


DATASETS: Listing[BuildDataset] = Listing(
    "datasets",
    DatasetShape.encode,
    (
        Column("dataset", "dataset"),
        Column("current run", "current_run", lambda dataset: dataset.current_run or "none"),
        Column("since", "moved_at"),
        Column("newest data", "newest_as_of"),
        Column("locked by", "locked_by"),
        Column("location", "url"),
    ),
)


def build_runs(current_run: str | None) -> Listing[BuildRun]:
    return Listing(
        "runs",
        lambda run: run_body(run, current_run),
        (
            Column("run", "run_id"),
            Column("status", lambda run: run_status(run, current_run)),
            Column("data of", "as_of", lambda run: f"{run.as_of:%Y-%m-%d %H:%M}"),
            Column("started", "started_at"),
            Column("shards", "num_shards"),
            Column("rows", "rows"),
            Column("size", "bytes", lambda run: None if run.bytes is None else size(run.bytes)),
            Column("error", "error", lambda run: (run.error or "")[:ERROR_SHOWN]),
        ),
    )


SHARDS: Listing[ShardInspection] = Listing(
    "shards",
    ShardShape.encode,
    (
        Column("shard", "shard_id"),
        Column("rows", lambda shard: shard.winner and shard.winner.rows),
        Column(
            "size",
            lambda shard: shard.winner and shard.winner.bytes,
            lambda shard: shard.winner and size(shard.winner.bytes),
        ),
        Column("smallest key", lambda shard: shard.winner and key_text(shard.winner.min_key)),
        Column("greatest key", lambda shard: shard.winner and key_text(shard.winner.max_key)),
        Column("winner", lambda shard: shard.winner and shard.winner.url),
        Column("losers", lambda shard: len(shard.losers), lambda shard: len(shard.losers) or None),
        Column("attempts", lambda shard: len(shard.attempts), lambda shard: None if shard.winner else len(shard.attempts)),
    ),
)
CLEANUP: Listing[CleanupAction] = Listing(
    "actions",
    CleanupActionShape.encode,
    (
        Column("phase", "phase", lambda action: action.phase.value.replace("_", " ")),
        Column("path", "path"),
        Column("objects", "objects"),
        Column("size", "bytes", lambda action: size(action.bytes or 0)),
        Column("reason", "reason"),
        Column("problem", "error"),
    ),
)
PROBLEMS: Listing[ShardProblem] = Listing(
    "problems",
    ProblemShardShape.encode,
    (Column("shard", "shard_id"), Column("file", "path"), Column("problem", "problem")),
)
