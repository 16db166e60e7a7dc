"""The triggers that listen to one kind of event: data that arrived, runs that ended, events from elsewhere, and the clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.amounts import parse_bytes, parse_count, say_bytes
from airflow_snowpack.scheduling.cron import check_cron, check_zone
from airflow_snowpack.scheduling.declared import declaration, parse_period, parse_text
from airflow_snowpack.scheduling.trigger import (
    Judgement,
    Leaf,
    Progress,
    asset_key,
    clock_key,
    custom_key,
    run_key,
    table_key,
)


class TableLeaf(Leaf):
    """Listens to the commits of one table."""

    table: str

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return table_key(TableName.parse(self.table, catalog=catalog))

    def _check_table(self) -> None:
        self._read("table", lambda table: TableName.parse(parse_table(table), catalog="catalog").dotted)


def parse_table(value: object) -> str:
    """:raises ValueError: it is no text. The name itself is checked by :class:`TableName`."""
    if not isinstance(value, str):
        raise ValueError('it must be the name of a table, such as "analytics.page_views"')
    return value


class _CountingLeaf(Leaf):
    """Counts up to a number."""

    count: int

    @property
    def wanted(self) -> int:
        return self.count


class _CountingTableLeaf(_CountingLeaf, TableLeaf):
    """Counts something that commits bring.

    :cvar unit: what it counts, for people.
    """

    unit: ClassVar[str]

    def __post_init__(self) -> None:
        self._check_table()
        self._read("count", parse_count)

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        return self._counted(progress, self.count, f"{self.unit} of {self.table}")


@declaration
class PartitionsAdded(_CountingTableLeaf):
    """Data was added to so many partitions of a table; one that got data twice counts once."""

    kind: ClassVar[str] = "partitions_added"
    measure: ClassVar[str] = "partitions"
    unit: ClassVar[str] = "partitions"
    table: str
    count: int = 1


@declaration
class FilesAdded(_CountingTableLeaf):
    """So many data files were added to a table."""

    kind: ClassVar[str] = "files_added"
    measure: ClassVar[str] = "files"
    unit: ClassVar[str] = "files"
    table: str
    count: int = 1


@declaration
class RecordsAdded(_CountingTableLeaf):
    """So many records were added to a table."""

    kind: ClassVar[str] = "records_added"
    measure: ClassVar[str] = "records"
    unit: ClassVar[str] = "records"
    table: str
    count: int = 1


@declaration
class CommitsAdded(_CountingTableLeaf):
    """So many commits added data to a table."""

    kind: ClassVar[str] = "commits_added"
    unit: ClassVar[str] = "commits"
    table: str
    count: int = 1


@declaration
class BytesAdded(TableLeaf):
    """So much data was added to a table.

    :param size: bytes, or text such as ``"100GB"`` or ``"512MiB"``.
    """

    kind: ClassVar[str] = "bytes_added"
    measure: ClassVar[str] = "bytes"
    table: str
    size: int | str

    def __post_init__(self) -> None:
        self._check_table()
        self._read("size", parse_bytes)

    @property
    def wanted(self) -> int:
        return int(self.size)

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        known = progress.get(self, Progress())
        says = f"{say_bytes(known.amount)} of {say_bytes(self.wanted)} of {self.table}"
        return Judgement(known.amount >= self.wanted, says, have=known.amount, want=self.wanted, since=self._since(known))


@declaration
class RunsSucceeded(_CountingLeaf):
    """Runs of a DAG succeeded, so many times."""

    kind: ClassVar[str] = "runs_succeeded"
    dag_id: str
    count: int = 1

    def __post_init__(self) -> None:
        self._read("dag_id", parse_text)
        self._read("count", parse_count)

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return run_key(self.dag_id, "success")

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        return self._counted(progress, self.count, f"successful runs of {self.dag_id}")


@declaration
class RunsFailed(_CountingLeaf):
    """Runs of a DAG failed, so many times."""

    kind: ClassVar[str] = "runs_failed"
    dag_id: str
    count: int = 1

    def __post_init__(self) -> None:
        self._read("dag_id", parse_text)
        self._read("count", parse_count)

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return run_key(self.dag_id, "failed")

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        return self._counted(progress, self.count, f"failed runs of {self.dag_id}")


@declaration
class AssetEvents(_CountingLeaf):
    """An Airflow asset was updated, so many times.

    :param uri: of the asset.
    """

    kind: ClassVar[str] = "asset_events"
    uri: str
    count: int = 1

    def __post_init__(self) -> None:
        self._read("uri", parse_text)
        self._read("count", parse_count)

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return asset_key(self.uri)

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        return self._counted(progress, self.count, f"events of {self.uri}")


@declaration
class CustomEvents(_CountingLeaf):
    """An event of this name was sent from outside, so many times."""

    kind: ClassVar[str] = "custom_events"
    name: str
    count: int = 1

    def __post_init__(self) -> None:
        self._read("name", parse_text)
        self._read("count", parse_count)

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return custom_key(self.name)

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        return self._counted(progress, self.count, f"events {self.name}")


class _ClockLeaf(Leaf):
    """Listens to its schedule's own clock."""

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return clock_key(schedule, number)


@declaration
class Cron(_ClockLeaf):
    """A moment of a cron expression came.

    :param expression: five fields, or six with the seconds first.
    :param tz: an IANA zone.
    """

    kind: ClassVar[str] = "cron"
    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        self._read("expression", lambda value: check_cron(parse_text(value)))
        self._read("tz", lambda value: check_zone(parse_text(value)))

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        came = (known := progress.get(self, Progress())).amount > 0
        says = f"a moment of {self.expression!r} ({self.tz}) {'came' if came else 'has not come'}"
        return Judgement(came, says, since=self._since(known))


@declaration
class Deadline(Cron):
    """The time by which ``at_latest`` starts a run. Any launch moves it to the next period."""

    kind: ClassVar[str] = "deadline"

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        passed = (known := progress.get(self, Progress())).amount > 0
        named = f"{self.expression!r} ({self.tz})"
        says = f"the deadline {named} has passed" if passed else f"at the latest by {named}"
        return Judgement(passed, says, since=self._since(known))


@declaration
class Every(_ClockLeaf):
    """So long a time has passed since the schedule last launched or, before its first launch, since it was enabled."""

    kind: ClassVar[str] = "every"
    period: timedelta | str

    def __post_init__(self) -> None:
        self._read("period", parse_period)

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        passed = (known := progress.get(self, Progress())).amount > 0
        says = f"{self.period} since the last launch {'have' if passed else 'have not'} passed"
        return Judgement(passed, says, since=self._since(known))


LEAVES: tuple[type[Leaf], ...] = (
    PartitionsAdded,
    BytesAdded,
    FilesAdded,
    RecordsAdded,
    CommitsAdded,
    RunsSucceeded,
    RunsFailed,
    AssetEvents,
    CustomEvents,
    Cron,
    Every,
)
