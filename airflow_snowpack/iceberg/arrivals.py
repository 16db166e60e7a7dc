"""What arrived in a table: the data that each new snapshot added, read from metadata.

    >>> arrivals = read_arrivals(table, since=Place(snapshot_id=8271, sequence=12, committed_at=…))  # doctest: +SKIP
    >>> [(one.files, one.bytes) for one in arrivals.new], arrivals.expired  # doctest: +SKIP
    ([(3, 8120), (1, 2210)], 0)

Only a net gain is an arrival (``gains.py``): a rewrite (``replace`` snapshots), a commit that only deletes, and a copy-on-write
DELETE or UPDATE, which writes the rows that stay once more, never count.
Each place in the table's history is passed once: what is new is found by following the ancestors of the head to a snapshot that
was read (``snapshot_line.py``). Snapshots that a rollback left behind stay read. A table that was dropped and made again under
its name has a history of its own, which is read from its beginning.
Snapshots that were expired before they were read count, too, as far as the oldest snapshot that is left shows what they brought
(``expired_gains.py``).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.expired_gains import read_expired_gains, records_after, records_before
from airflow_snowpack.iceberg.gains import Gain, read_gain
from airflow_snowpack.iceberg.snapshot_line import SnapshotLine

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

log = logging.getLogger(__name__)

MAX_NAMED_PARTITIONS = 1_000
EXPIRED = "expired"
MAX_OTHER_HEADS = 100
"""More snapshots that rollbacks left behind are not kept; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a table's history: everything up to this snapshot has been considered.

    :param snapshot_id: ``None`` for a table without a snapshot, and where the snapshot was expired unread.
    :param sequence: its sequence number; 0 for a moment instead of a snapshot, see :meth:`at`.
    :param table_uuid: of the table; ``None`` where it was not kept.
    :param other_heads: snapshots that were considered, too, and that a rollback left behind.
    :param total_records: of the table at this place; ``None`` where it is not known.
    """

    snapshot_id: int | None
    sequence: int
    committed_at: datetime | None
    table_uuid: str | None = None
    other_heads: tuple[int, ...] = ()
    total_records: int | None = None

    @classmethod
    def at(cls, moment: datetime) -> Place:
        """Return the place of a table at this moment, by the clocks of its writers."""
        return cls(None, 0, moment)


@dataclass(frozen=True, slots=True)
class Arrival:
    """What one snapshot added.

    :param snapshot_id: ``None`` for one that was expired unread and whose id is not known any more.
    :param committed_at: by the clock of the writer; ``arrived_at``: when it became part of the main branch, which is later for a
        branch that was published after an audit. For one that was expired unread, both are those of the oldest snapshot after it.
    :param operation: what the writer did; :data:`EXPIRED` for a snapshot that was expired unread.
    :param partitions: the names of the partitions that got data, such as ``day=2026-11-21``; at most 1,000 of them.
    :param partition_count: how many partitions got data.
    """

    snapshot_id: int | None
    sequence: int
    committed_at: datetime
    operation: str
    files: int
    records: int
    bytes: int
    partitions: tuple[str, ...]
    partition_count: int
    table_uuid: str
    arrived_at: datetime
    place: Place

    def to_amounts(self) -> dict[str, int]:
        return {"partitions": self.partition_count, "files": self.files, "records": self.records, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What happened since a place.

    :param new: oldest first; only what added data.
    :param expired: how many snapshots came and were expired before they were read.
    :param head: the place to look from the next time.
    """

    new: tuple[Arrival, ...]
    expired: int
    head: Place


def head_of(table: Table) -> Place:
    """Return the place of the table's main branch now."""
    snapshot = table.current_snapshot()
    return Place(None, 0, None, str(table.metadata.table_uuid)) if snapshot is None else _place_of(table, snapshot)


def place_at(table: Table, moment: datetime) -> Place | None:
    """Return the place of the table's main branch at a moment, by its own log; ``None`` when that snapshot has expired."""
    head = SnapshotLine(table).head_before(moment)
    snapshot = None if head is None else table.snapshot_by_id(head)
    return None if snapshot is None else _place_of(table, snapshot)


def _place_of(table: Table, snapshot: Snapshot) -> Place:
    return Place(
        snapshot.snapshot_id,
        snapshot.sequence_number or 0,
        _moment(snapshot),
        str(table.metadata.table_uuid),
        total_records=records_after(snapshot),
    )


def read_arrivals(table: Table, since: Place) -> Arrivals:
    """What the main branch got after a place."""
    if _is_of_another(table, since):
        log.warning(
            "table_replaced: %s is not the table that was read before; it is read from its beginning",
            ".".join(table.name()),
        )
        since = Place(None, 0, None, str(table.metadata.table_uuid), total_records=0)
    snapshots = SnapshotLine(table)
    since = _known(table, snapshots, since)
    new, has_gap = snapshots.after(_read_before(since), lambda snapshot: _is_after(snapshot, since))
    head = _move(snapshots, since, head_of(table))
    arrived = snapshots.published_at(new)
    found = (_arrival(table, one, arrived[one.snapshot_id], head.other_heads) for one in new)
    missing = new[0].sequence_number - since.sequence - 1 if has_gap and new[0].sequence_number and _is_numbered(since) else 0
    unread = _expired_arrivals(table, new[0], arrived[new[0].snapshot_id], since) if missing > 0 else []
    return Arrivals((*unread, *(arrival for arrival in found if arrival is not None)), max(0, missing), head)


def _known(table: Table, snapshots: SnapshotLine, since: Place) -> Place:
    """Return the place completed from the table: for a moment, the snapshot of the main branch at that moment."""
    head = since.snapshot_id
    if head is None and since.committed_at is not None and not since.sequence:
        head = snapshots.head_before(since.committed_at)
    snapshot = None if head is None else table.snapshot_by_id(head)
    if snapshot is None:
        return since
    return replace(_place_of(table, snapshot), other_heads=since.other_heads)


def _is_numbered(since: Place) -> bool:
    """Whether sequence numbers show what came after a place: after a snapshot of format version 2, or after an empty table."""
    return since.sequence > 0 or (since.snapshot_id is None and since.committed_at is None and since.table_uuid is not None)


def _expired_arrivals(table: Table, oldest: Snapshot, arrived_at: datetime, since: Place) -> list[Arrival]:
    """What came between a place and the oldest snapshot that is left after it."""
    before = records_before(oldest)
    gained = None if before is None or since.total_records is None else before - since.total_records
    total, uuid, found = since.total_records, str(table.metadata.table_uuid), []
    for expired in read_expired_gains(table, oldest, since.sequence, gained):
        total = None if total is None else total + expired.gain.records
        place = Place(None, expired.sequence, None, uuid, since.other_heads, total)
        found.append(
            _arrival_of(
                expired.gain,
                snapshot_id=expired.snapshot_id,
                sequence=expired.sequence,
                committed_at=_moment(oldest),
                operation=EXPIRED,
                table_uuid=uuid,
                arrived_at=arrived_at,
                place=place,
            )
        )
    return found


def _read_before(since: Place) -> list[int]:
    """The snapshots that a place names as considered."""
    return [*([] if since.snapshot_id is None else [since.snapshot_id]), *since.other_heads]


def _move(snapshots: SnapshotLine, since: Place, head: Place) -> Place:
    """The next place: at the head, where the snapshots that a rollback left behind stay considered."""
    if head.snapshot_id is None:
        return since if since.snapshot_id is not None and head.table_uuid == since.table_uuid else head
    line = snapshots.ancestors(head.snapshot_id)
    others = [one for one in _read_before(since) if snapshots.has(one) and one not in line]
    return replace(head, other_heads=tuple(others[:MAX_OTHER_HEADS]))


def _is_of_another(table: Table, place: Place) -> bool:
    """Whether the place is one in a table of this name that was dropped.

    The snapshot is checked too, since a table of format version 1 may come without an identity, and gets one at each load.
    """
    if place.table_uuid is None or place.table_uuid == str(table.metadata.table_uuid):
        return False
    return place.snapshot_id is None or table.snapshot_by_id(place.snapshot_id) is None


def _is_after(snapshot: Snapshot, since: Place) -> bool:
    if snapshot.snapshot_id == since.snapshot_id:
        return False
    if snapshot.sequence_number and since.sequence:
        return snapshot.sequence_number > since.sequence
    # A table of format version 1 has no sequence numbers, and a moment has none either.
    return since.committed_at is None or _moment(snapshot) >= since.committed_at


def _arrival(table: Table, snapshot: Snapshot, arrived_at: datetime, other_heads: tuple[int, ...]) -> Arrival | None:
    from pyiceberg.table.snapshots import Operation

    if snapshot.summary is None or snapshot.summary.operation is Operation.REPLACE:
        return None
    gain = read_gain(table, snapshot)
    if not gain.partitions:
        return None
    return _arrival_of(
        gain,
        snapshot_id=snapshot.snapshot_id,
        sequence=snapshot.sequence_number or 0,
        committed_at=_moment(snapshot),
        operation=snapshot.summary.operation.value,
        table_uuid=str(table.metadata.table_uuid),
        arrived_at=arrived_at,
        place=replace(_place_of(table, snapshot), other_heads=other_heads),
    )


def _arrival_of(gain: Gain, **fields: Any) -> Arrival:
    return Arrival(
        files=gain.files,
        records=gain.records,
        bytes=gain.bytes,
        partitions=tuple(sorted(gain.partitions)[:MAX_NAMED_PARTITIONS]),
        partition_count=len(gain.partitions),
        **fields,
    )


def _moment(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
