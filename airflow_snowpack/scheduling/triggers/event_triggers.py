"""Triggers that count events: data that arrived in tables, DAG runs that ended, asset updates, and custom events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar, Literal, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from airflow_snowpack.humanize import size
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.declared import declaration, parse_choice, parse_count, parse_text
from airflow_snowpack.scheduling.triggers.trigger import (
    Judgement,
    Leaf,
    Progress,
    SourceName,
    asset_key,
    changes_key,
    custom_key,
    run_key,
    table_key,
)


def parse_size(value: object) -> int:
    """:raises ValueError: as :func:`~airflow_snowpack.sizes.parse_bytes`."""
    from airflow_snowpack.sizes import parse_bytes  # only for DAG files that count bytes

    return parse_bytes(value)


def parse_table(value: object) -> str:
    """:raises ValueError: it is not a string; :class:`InvalidName` if it is not the name of a table."""
    if not isinstance(value, str):
        raise ValueError('it must be the name of a table, such as "analytics.page_views"')
    return TableName.parse(value, catalog="catalog").dotted


parse_counting = parse_choice(("gains", "changes"))


class AssetWithUri(Protocol):
    """An Airflow asset."""

    uri: str


def parse_asset(value: object) -> str:
    """Return the URI of an asset as Airflow stores it.

    :param value: the URI, or the asset, whose URI may have additions of a provider, such as a port.
    :raises ValueError: it is neither, or its scheme is reserved.
    """
    return _as_stored(parse_text(getattr(value, "uri", value)))


def _as_stored(uri: str) -> str:
    parts = urlsplit(uri)
    if not parts.scheme or parts.scheme.startswith("x-"):  # a name, or a scheme that Airflow leaves alone
        return uri
    if parts.scheme == "airflow":
        raise ValueError("the scheme airflow is reserved")
    host = parts.netloc.rpartition("@")[2] if parts.password else parts.netloc
    query = urlencode(sorted(parse_qsl(parts.query)))
    return urlunsplit(parts._replace(netloc=host, path=parts.path.rstrip("/") or "/", query=query, fragment=""))


class _Counting(Leaf):
    """Counts up to a number; ``unit`` is what it counts, followed by the value of its first field."""

    unit: ClassVar[str]
    count: int

    @property
    def wanted(self) -> int:
        return self.count

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        known = progress.get(self, Progress())
        have, want = known.amount, self.wanted
        return Judgement(have >= want, self._share(have, want) + self.remark, have=have, want=want, since=self._since(known))

    @property
    def remark(self) -> str:
        """What follows the numbers in its text."""
        return ""

    def _share(self, have: int, want: int) -> str:
        return f"{have:,} of {want:,} {self.unit} {getattr(self, next(iter(self.fields)))}"


class _OfTable(Leaf):
    """Counts what a table gains or, counting changes, also updates and deletions."""

    table: str
    counting: Literal["gains", "changes"]

    @property
    def source(self) -> SourceName:
        return SourceName("table", self.table)

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return (table_key if self.counting == "gains" else changes_key)(TableName.parse(self.table, catalog=catalog))

    @property
    def remark(self) -> str:
        return "" if self.counting == "gains" else ", counting changes"


@declaration
class _CountingOfTable(_OfTable, _Counting):
    checks: ClassVar = {"table": parse_table, "count": parse_count, "counting": parse_counting}
    table: str
    count: int = 1
    counting: Literal["gains", "changes"] = "gains"


class PartitionsAdded(_CountingOfTable):
    """Data was added to a number of partitions of a table. A partition that got data twice counts once."""

    kind: ClassVar[str] = "partitions_added"
    measure: ClassVar[str] = "partitions"
    unit: ClassVar[str] = "partitions of"


class FilesAdded(_CountingOfTable):
    """A number of data files were added to a table."""

    kind: ClassVar[str] = "files_added"
    measure: ClassVar[str] = "files"
    unit: ClassVar[str] = "files of"


class RecordsAdded(_CountingOfTable):
    """A number of records were added to a table."""

    kind: ClassVar[str] = "records_added"
    measure: ClassVar[str] = "records"
    unit: ClassVar[str] = "records of"


class CommitsAdded(_CountingOfTable):
    """A number of commits added data to a table."""

    kind: ClassVar[str] = "commits_added"
    unit: ClassVar[str] = "commits of"


@declaration
class BytesAdded(_OfTable, _Counting):
    """An amount of data was added to a table.

    :param size: bytes, or text such as ``"100GB"`` or ``"512MiB"``.
    """

    kind: ClassVar[str] = "bytes_added"
    measure: ClassVar[str] = "bytes"
    checks: ClassVar = {"table": parse_table, "size": parse_size, "counting": parse_counting}
    table: str
    size: int | str
    counting: Literal["gains", "changes"] = "gains"

    @property
    def wanted(self) -> int:
        return int(self.size)

    def _share(self, have: int, want: int) -> str:
        return f"{size(have)} of {size(want)} of {self.table}"


@declaration
class _RunsEnded(_Counting):
    state: ClassVar[str]
    checks: ClassVar = {"dag_id": parse_text, "count": parse_count}
    dag_id: str
    count: int = 1

    @property
    def source(self) -> SourceName:
        return SourceName("dag", self.dag_id)

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return run_key(self.dag_id, self.state)


class RunsSucceeded(_RunsEnded):
    """A number of runs of a DAG succeeded."""

    kind: ClassVar[str] = "runs_succeeded"
    state: ClassVar[str] = "success"
    unit: ClassVar[str] = "successful runs of"


class RunsFailed(_RunsEnded):
    """A number of runs of a DAG failed."""

    kind: ClassVar[str] = "runs_failed"
    state: ClassVar[str] = "failed"
    unit: ClassVar[str] = "failed runs of"


@declaration
class AssetEvents(_Counting):
    """An Airflow asset was updated a number of times.

    :param uri: of the asset, or the asset itself.
    """

    kind: ClassVar[str] = "asset_events"
    unit: ClassVar[str] = "events of"
    checks: ClassVar = {"uri": parse_asset, "count": parse_count}
    uri: str | AssetWithUri
    count: int = 1

    @property
    def source(self) -> SourceName:
        return SourceName("asset", str(self.uri))

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return asset_key(str(self.uri))


@declaration
class CustomEvents(_Counting):
    """Another system sent a number of events of this name."""

    kind: ClassVar[str] = "custom_events"
    unit: ClassVar[str] = "events named"
    checks: ClassVar = {"name": parse_text, "count": parse_count}
    name: str
    count: int = 1

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return custom_key(self.name)
