"""Tables: the list of the catalog, and the health of one."""

from typing import Annotated

from pydantic import Field

from airflow_snowpack.humanize import short_id, size
from airflow_snowpack.iceberg import PartitionHealth
from airflow_snowpack.iceberg.health import ScorePart, score
from airflow_snowpack.inventory import Condition
from airflow_snowpack.maintenance.table_list import ListedTable
from airflow_snowpack.wire.assessment import LeftOutShape, ScorePartShape
from airflow_snowpack.wire.job import JobShape
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import Body, Database, From, Level, Moment, Shape

WORST_PARTITIONS = 10


class TableShape(Shape):
    """A table and its next step."""

    database: Annotated[Database, From("table.database")]
    table_name: Annotated[Level, From("table.table")]
    next_step: Annotated[str, From(lambda explained: str(explained.next_step))]
    last_job: Annotated[JobShape | None, From("last")]
    locked_by: Annotated[str | None, From(lambda explained: explained.lock and explained.lock.holder)]


class ListedTableShape(TableShape):
    """A table in the list."""

    score: int | None = Field(description="From 0 (sick) to 100 (healthy), by its stored health; null if none is stored.")
    condition: Condition
    problem: str | None = Field(description="Why its metadata could not be read.")
    read_at: Moment = Field(description="When its metadata was last read.")


class InventoryShape(Shape):
    """How current the list of tables is."""

    refreshed_at: Moment
    age_seconds: float | None
    problem: str | None = Field(description="Why the last listing of the catalog failed.")
    left_out_count: int = Field(description="How many tables and namespaces have names that no request can contain.")
    left_out: list[LeftOutShape] = Field(description="The first 50 of them.")


class InventoryCountShape(InventoryShape):
    """How current the list of tables is, and how many tables it has."""

    tables: int


class TablesShape(InventoryShape):
    """A page of the tables."""

    tables: list[ListedTableShape]
    next: str | None = Field(description="The `cursor` of the next page.")


class PartitionShape(Shape):
    """A partition."""

    partition: Annotated[str, From("label")]
    data_files: int
    small_files: int
    delete_files: int
    bytes: int


class HealthShape(Shape):
    """A table's health, from its metadata."""

    location: str
    metadata_location: str
    read_at: Moment = Field(description="When this metadata was read; health of unchanged tables is not read again.")
    format_version: int
    score: Annotated[int, From(lambda health: score(health).total)] = Field(description="From 0 (sick) to 100 (healthy).")
    score_parts: Annotated[list[ScorePartShape], From(lambda health: score(health).parts)]
    data_files: Annotated[int, From("totals.data_files")]
    delete_files: Annotated[int, From("totals.delete_files")]
    bytes: Annotated[int, From("totals.bytes")]
    records: Annotated[int, From("totals.records")]
    position_deletes: Annotated[int, From("totals.position_deletes")]
    equality_deletes: Annotated[int, From("totals.equality_deletes")]
    snapshots: Annotated[int, From("totals.snapshots")]
    oldest_snapshot_at: Annotated[Moment, From("snapshots.oldest_at")]
    manifests: Annotated[int, From("totals.manifests")]
    manifests_bytes: int
    metadata_bytes: int | None
    small_files: int
    small_files_bytes: Annotated[int, From("small_bytes")]
    small_files_ratio: float
    large_files: int
    files_with_many_deletes: Annotated[int, From("with_deletes_files")]
    average_file_bytes: float
    target_file_size_bytes: Annotated[int, From("bounds.target_file_size_bytes")]
    file_sizes: list[int] = Field(
        description="Data files by size: below 1 MiB, from 1 to 2 MiB, from 2 to 4 MiB, and so on in powers of two."
    )
    position_delete_files: int
    equality_delete_files: int
    deletion_vectors: int
    partition_count: int
    skew: float = Field(description="The bytes of the largest partition as a multiple of those of an average one.")
    partitions: Annotated[list[PartitionShape], From(lambda health: health.partitions[:WORST_PARTITIONS])] = Field(
        description="The ten that need maintenance the most."
    )


class TableHealthShape(TableShape):
    """A table, its next step and its metrics."""

    health: HealthShape | None
    problem: str | None = Field(description="Why there are no metrics.")


def _encode(listed: ListedTable) -> Body:
    about = listed.scored
    given = {"score": about.score, "condition": about.condition, "problem": about.problem, "read_at": about.read_at}
    return ListedTableShape.encode(listed.explained, **given)


def _score(listed: ListedTable) -> object:
    score, condition = listed.scored.score, listed.scored.condition
    return condition.replace("_", " ") if score is None else score


def _last_job(listed: ListedTable) -> object:
    job = listed.explained.last
    return "never" if job is None else (job.status, job.completed_at or job.started_at or job.submitted_at)


def _locked_by(listed: ListedTable) -> str | None:
    lock, last = listed.explained.lock, listed.explained.last
    if lock is None:
        return None
    return f"job {short_id(lock.holder)}" if last is not None and lock.holder == last.job_id else lock.holder


TABLES: Listing[ListedTable] = Listing(
    "tables",
    _encode,
    (
        Column("table", "scored.table.dotted"),
        Column("score", "scored.score", _score),
        Column(
            "last job",
            lambda listed: listed.explained.last and listed.explained.last.status,
            _last_job,
            state=lambda listed: listed.explained.last.status if listed.explained.last else "never",
        ),
        Column("locked by", lambda listed: listed.explained.lock and listed.explained.lock.holder, _locked_by),
        Column("next step", lambda listed: str(listed.explained.next_step)),
    ),
)
PARTITIONS: Listing[PartitionHealth] = Listing(
    "partitions",
    PartitionShape.encode,
    (
        Column("partition", "label"),
        Column("data files", "data_files"),
        Column("small files", "small_files"),
        Column("delete files", "delete_files"),
        Column("bytes", "bytes", lambda partition: size(partition.bytes)),
    ),
)
SCORE_PARTS: Listing[ScorePart] = Listing(
    "score_parts",
    ScorePartShape.encode,
    (
        Column("part of the score", "name", lambda part: part.name.replace("_", " ")),
        Column("points", "points", lambda part: f"{part.points} of {part.of}"),
        Column("evidence", "evidence"),
    ),
)
