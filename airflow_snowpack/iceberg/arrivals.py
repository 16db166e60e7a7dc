"""What arrived in a table: the data that each new snapshot added, read from metadata.

    >>> arrivals = read_arrivals(table, since=Place(snapshot_id=8271, sequence=12, committed_at=…))  # doctest: +SKIP
    >>> [(one.files, one.bytes) for one in arrivals.new], arrivals.expired  # doctest: +SKIP
    ([(3, 8120), (1, 2210)], 0)

Only a net gain is an arrival (``gains.py``). A rewrite (``replace`` snapshot), a commit that only deletes, and a copy-on-write
DELETE or UPDATE, which writes the remaining rows again, never count; all but rewrites are among the ``changes``. Snapshots that
expired unread count too, as far as the oldest remaining snapshot shows what they added.

Each place in the table's history is passed once: new snapshots are found by following the ancestors of the head to a snapshot
that was read. Snapshots that a rollback left behind stay read. A table that was dropped and recreated under its name has a new
history, which is read from its beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.gains import Gain, read_effect, read_expired_gains, records_after, records_before

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

log = logging.getLogger(__name__)

MAX_NAMED_PARTITIONS = 1_000
CHERRY_PICK = "source-snapshot-id"
"""In the summary of a cherry-pick: the snapshot whose files it commits."""
EXPIRED = "expired"
MAX_OTHER_HEADS = 100
"""How many snapshots that rollbacks left behind are kept; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """A place in a table's history: everything up to this snapshot has been considered.

    :param snapshot_id: ``None`` for a table without a snapshot, and if the snapshot expired unread.
    :param sequence: its sequence number; 0 for a moment instead of a snapshot, see :meth:`at`.
    :param table_uuid: of the table; ``None`` if it was not stored.
    :param other_heads: considered snapshots that a rollback left behind.
    :param total_records: of the table at this place; ``None`` if unknown.
    """

    snapshot_id: int | None
    sequence: int
    committed_at: datetime | None
    table_uuid: str | None = None
    other_heads: tuple[int, ...] = ()
    total_records: int | None = None

    @classmethod
    def at(cls, moment: datetime) -> HistoryPlace:
        """Return the place of a table at this moment, by the clocks of its writers."""
        return cls(None, 0, moment)


@dataclass(frozen=True, slots=True)
class Arrival:
    """What one snapshot added.

    :param snapshot_id: ``None`` for one that expired unread and whose id is unknown.
    :param committed_at: by the clock of the writer.
    :param arrived_at: when it became part of the main branch, which is later for a branch that was published after an audit. For
        a snapshot that expired unread, both times are those of the oldest snapshot after it.
    :param operation: what the writer did; :data:`EXPIRED` for a snapshot that expired unread.
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
    place: HistoryPlace

    def to_amounts(self) -> dict[str, int]:
        return {"partitions": self.partition_count, "files": self.files, "records": self.records, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What happened since a place, and the place from which to read next time.

    :param new: what added data.
    :param changes: what added, changed or deleted data, with the amounts. Snapshots that expired unread are the same in both.
    :param expired: how many snapshots expired unread whose data the table still names; those of a dropped branch are not counted.
    """

    new: tuple[Arrival, ...]
    changes: tuple[Arrival, ...]
    expired: int
    head: HistoryPlace


def head_of(table: Table) -> HistoryPlace:
    """Return the current place of the table's main branch."""
    snapshot = table.current_snapshot()
    return HistoryPlace(None, 0, None, str(table.metadata.table_uuid)) if snapshot is None else _place_of(table, snapshot)


def place_at(table: Table, moment: datetime) -> HistoryPlace | None:
    """Return the place of the table's main branch at a moment, by the table's log; ``None`` if that snapshot has expired."""
    head = SnapshotLine(table).head_before(moment)
    snapshot = None if head is None else table.snapshot_by_id(head)
    return None if snapshot is None else _place_of(table, snapshot)


def _place_of(table: Table, snapshot: Snapshot) -> HistoryPlace:
    return HistoryPlace(
        snapshot.snapshot_id,
        snapshot.sequence_number or 0,
        _moment(snapshot.timestamp_ms),
        str(table.metadata.table_uuid),
        total_records=records_after(snapshot),
    )


def read_arrivals(table: Table, since: HistoryPlace) -> Arrivals:
    """Return what the main branch got after a place; log the snapshots that expired unread."""
    name = ".".join((table.catalog.name, *table.name()))
    if _is_of_another(table, since):
        log.warning("table_replaced: %s is not the table that was read before; it is read from its beginning", name)
        since = HistoryPlace(None, 0, None, str(table.metadata.table_uuid), total_records=0)
    snapshots = SnapshotLine(table)
    since = _known(table, snapshots, since)
    new, has_gap = snapshots.after(_read_before(since), lambda snapshot: _is_after(snapshot, since))
    head = _move(snapshots, since, head_of(table))
    arrived = snapshots.published_at(new)
    missing = new[0].sequence_number - since.sequence - 1 if has_gap and new[0].sequence_number and _is_numbered(since) else 0
    unread, expired = _expired_arrivals(table, new[0], arrived[new[0].snapshot_id], since) if missing > 0 else ([], 0)
    if expired:
        log.warning("snapshots_expired_unread: %s of %s were expired before they were read", expired, name)
    effects = [(one, read_effect(table, one)) for one in new if not _only_rewrites(one)]

    def each(amounts: Iterable[tuple[Snapshot, Gain]]) -> tuple[Arrival, ...]:
        with_data = ((one, gain) for one, gain in amounts if gain.partitions)
        return (*unread, *(_arrival_of(table, one, gain, arrived[one.snapshot_id], head.other_heads) for one, gain in with_data))

    return Arrivals(
        new=each((one, effect.gained) for one, effect in effects),
        changes=each((one, effect.changed) for one, effect in effects),
        expired=expired,
        head=head,
    )


def _known(table: Table, snapshots: SnapshotLine, since: HistoryPlace) -> HistoryPlace:
    """Complete the place from the table: for a moment, with the snapshot of the main branch at that moment."""
    head = since.snapshot_id
    if head is None and since.committed_at is not None and not since.sequence:
        head = snapshots.head_before(since.committed_at)
    snapshot = None if head is None else table.snapshot_by_id(head)
    if snapshot is None:
        return since
    return replace(_place_of(table, snapshot), other_heads=since.other_heads)


def _is_numbered(since: HistoryPlace) -> bool:
    """Return whether sequence numbers order what follows a place: a snapshot of format version 2, or an empty table."""
    return since.sequence > 0 or (since.snapshot_id is None and since.committed_at is None and since.table_uuid is not None)


def _expired_arrivals(table: Table, oldest: Snapshot, arrived_at: datetime, since: HistoryPlace) -> tuple[list[Arrival], int]:
    """Return what arrived between a place and the oldest remaining snapshot after it, and how many commits wrote data there."""
    before = records_before(oldest)
    gained = None if before is None or since.total_records is None else before - since.total_records
    total, uuid, found = since.total_records, str(table.metadata.table_uuid), []
    commits = read_expired_gains(table, oldest, since.sequence, gained)
    for expired in [commit for commit in commits if commit.gain.records]:
        total = None if total is None else total + expired.gain.records
        place = HistoryPlace(None, expired.sequence, None, uuid, since.other_heads, total)
        found.append(_arrival(place, expired.gain, expired.snapshot_id, _moment(oldest.timestamp_ms), EXPIRED, arrived_at))
    return found, len(commits)


def _read_before(since: HistoryPlace) -> list[int]:
    """Return the snapshots that a place names as considered."""
    return [*([] if since.snapshot_id is None else [since.snapshot_id]), *since.other_heads]


def _move(snapshots: SnapshotLine, since: HistoryPlace, head: HistoryPlace) -> HistoryPlace:
    """Return the next place: the head, where snapshots that a rollback left behind stay considered."""
    if head.snapshot_id is None:
        return since if since.snapshot_id is not None and head.table_uuid == since.table_uuid else head
    line = snapshots.ancestors(head.snapshot_id)
    others = [one for one in _read_before(since) if snapshots.has(one) and one not in line]
    return replace(head, other_heads=tuple(others[:MAX_OTHER_HEADS]))


def _is_of_another(table: Table, place: HistoryPlace) -> bool:
    """Return whether the place belongs to a dropped table of the same name.

    The snapshot is checked too: a table of format version 1 may lack a UUID, and then gets a new one at each load.
    """
    if place.table_uuid is None or place.table_uuid == str(table.metadata.table_uuid):
        return False
    return place.snapshot_id is None or table.snapshot_by_id(place.snapshot_id) is None


def _is_after(snapshot: Snapshot, since: HistoryPlace) -> bool:
    if snapshot.snapshot_id == since.snapshot_id:
        return False
    if snapshot.sequence_number and since.sequence:
        return snapshot.sequence_number > since.sequence
    # Neither a table of format version 1 nor a moment has a sequence number.
    return since.committed_at is None or _moment(snapshot.timestamp_ms) >= since.committed_at


def _only_rewrites(snapshot: Snapshot) -> bool:
    from pyiceberg.table.snapshots import Operation

    return snapshot.summary is None or snapshot.summary.operation is Operation.REPLACE


def _arrival_of(table: Table, snapshot: Snapshot, gain: Gain, arrived_at: datetime, other_heads: tuple[int, ...]) -> Arrival:
    assert snapshot.summary is not None, "one without a summary is left out"
    place = replace(_place_of(table, snapshot), other_heads=other_heads)
    committed_at = _moment(snapshot.timestamp_ms)
    return _arrival(place, gain, snapshot.snapshot_id, committed_at, snapshot.summary.operation.value, arrived_at)


def _arrival(
    place: HistoryPlace, gain: Gain, snapshot_id: int | None, committed_at: datetime, operation: str, arrived_at: datetime
) -> Arrival:
    return Arrival(
        snapshot_id=snapshot_id,
        sequence=place.sequence,
        committed_at=committed_at,
        operation=operation,
        files=gain.files,
        records=gain.records,
        bytes=gain.bytes,
        partitions=tuple(sorted(gain.partitions)[:MAX_NAMED_PARTITIONS]),
        partition_count=len(gain.partitions),
        table_uuid=str(place.table_uuid),
        arrived_at=arrived_at,
        place=place,
    )


class SnapshotLine:
    """The snapshots of a table's main branch that come after those that were read.

    Sequence numbers do not give the order in which data reaches the main branch: a branch that is audited before it is published
    has lower ones than the commits that the main branch got meanwhile. The line is therefore followed through ancestors, from the
    head back to a snapshot that was read. Where expiry has cut it before that, the caller's ``is_after`` decides.
    """

    def __init__(self, table: Table) -> None:
        self._snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
        self._head = table.metadata.current_snapshot_id
        self._log = [(entry.snapshot_id, _moment(entry.timestamp_ms)) for entry in table.metadata.snapshot_log]

    def after(self, read: Iterable[int], is_after: Callable[[Snapshot], bool]) -> tuple[list[Snapshot], bool]:
        """Return the main branch's snapshots that come after those that were read, the oldest first.

        :param read: their ids, which the table may no longer have; their ancestors were read, too.
        :param is_after: whether a snapshot comes after them; called only if the line does not lead to one of them.
        :returns: the snapshots, and whether others between them and what was read may have expired.
        """
        before = {ancestor for snapshot_id in read for ancestor in self.ancestors(snapshot_id)}
        # A cherry-pick commits the files of another snapshot again: if one of them was read, both were.
        before |= {source for snapshot_id in before if (source := self._source(snapshot_id)) is not None}
        line: list[Snapshot] = []
        next_id = self._head
        while next_id is not None and next_id not in before and (snapshot := self._snapshots.get(next_id)) is not None:
            line.append(snapshot)
            next_id = snapshot.parent_snapshot_id
        if next_id is not None and next_id in before:
            return self._unread(line, before), False
        new = list(takewhile(is_after, line))
        return self._unread(new, before), bool(new) and len(new) == len(line)

    def _unread(self, line: Iterable[Snapshot], before: Collection[int]) -> list[Snapshot]:
        """Return a line, the oldest first, without cherry-picks of what was read."""
        return [snapshot for snapshot in line if self._source(snapshot.snapshot_id) not in before][::-1]

    def _source(self, snapshot_id: int) -> int | None:
        """Return the snapshot that this one is a cherry-pick of."""
        snapshot = self._snapshots.get(snapshot_id)
        text = None if snapshot is None or snapshot.summary is None else snapshot.summary[CHERRY_PICK]
        return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None

    def ancestors(self, snapshot_id: int) -> set[int]:
        """Return the ids of the snapshot and its ancestors, including the first one that has expired."""
        found: set[int] = set()
        next_id: int | None = snapshot_id
        while next_id is not None and next_id not in found:
            found.add(next_id)
            next_id = snapshot.parent_snapshot_id if (snapshot := self._snapshots.get(next_id)) is not None else None
        return found

    def has(self, snapshot_id: int) -> bool:
        return snapshot_id in self._snapshots

    def head_before(self, moment: datetime) -> int | None:
        """Return the head of the main branch just before a moment, by the table's log; ``None`` if the log has none."""
        earlier = [snapshot_id for snapshot_id, since in self._log if since < moment]
        return earlier[-1] if earlier else None

    def published_at(self, line: Collection[Snapshot]) -> dict[int, datetime]:
        """Return when each snapshot of a line became part of the main branch.

        That is when the main branch was moved to it or to the first snapshot after it: the snapshots of an audited branch arrive
        when it is published, whenever they were committed.

        :param line: oldest first.
        """
        published = dict(self._log)
        arrived: dict[int, datetime] = {}
        became: datetime | None = None
        for snapshot in reversed(list(line)):
            became = published.get(snapshot.snapshot_id, became)
            committed = _moment(snapshot.timestamp_ms)
            arrived[snapshot.snapshot_id] = max(committed, became or committed)
        return arrived


def _moment(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)
