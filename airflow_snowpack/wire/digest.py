"""The digest of a period: what maintenance did, what failed, and which tables are sick."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from airflow_snowpack.wire.shape import From, Shape


def by_value(counts: Mapping[Any, int]) -> dict[str, int]:
    return {key.value: number for key, number in counts.items()}


class FailureShape(Shape):
    """Failed jobs with one cause."""

    cause: Annotated[str, From("group.cause")] = Field(description="The error without ids, paths, names and numbers.")
    error: Annotated[str, From("group.example")] = Field(description="The latest error in full.")
    tables: Annotated[list[str], From("group.tables")]
    job_ids: Annotated[list[str], From("group.job_ids")]
    to_rerun: list[str] = Field(description="Ids of the jobs that no later job of their table has replaced.")
    locked: list[str] = Field(description="Of the tables to re-run, those that are locked now.")


class DigestShape(Shape):
    """What maintenance did in a period."""

    text: str = Field(description="For people: a sentence, and a line for each cause of failures.")
    since: datetime
    until: datetime
    jobs: Annotated[dict[str, int], From(lambda digest: by_value(digest.ended))] = Field(
        description="Jobs that ended, by their status, without those that a pass cancelled."
    )
    withdrawn: int = Field(description="Jobs that a pass cancelled; the next one plans their tables again.")
    active: int = Field(description="Jobs that wait or run.")
    files_removed: int
    bytes_rewritten: int
    tables: Annotated[dict[str, int], From(lambda digest: by_value(digest.scores.by_condition))] = Field(
        description="Tables by their condition, now."
    )
    failures: list[FailureShape]
