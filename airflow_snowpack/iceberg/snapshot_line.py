"""The snapshots of a table's main branch that come after those that were read.

    line = SnapshotLine(table)
    new, has_gap = line.after([8271], is_after)      # oldest first

Sequence numbers do not give the order in which data reaches the main branch: a branch that was audited before it is published has
lower ones than the commits that the main branch got meanwhile. The ancestors of a snapshot do, so the line is followed from the
head back to a snapshot that was read. Where expiry has cut it before it meets one, the caller's ``is_after`` decides the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


class SnapshotLine:
    """The snapshots of a table, by their ids."""

    def __init__(self, table: Table) -> None:
        self._snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
        self._head = table.metadata.current_snapshot_id
        self._log = [(entry.snapshot_id, _moment(entry.timestamp_ms)) for entry in table.metadata.snapshot_log]

    def after(self, read: Iterable[int], is_after: Callable[[Snapshot], bool]) -> tuple[list[Snapshot], bool]:
        """Return the main branch's snapshots that come after those that were read, the oldest first.

        :param read: their ids; their ancestors were read, too. They need not be in the table any more.
        :param is_after: whether a snapshot comes after them; asked only where the line does not lead to one of them.
        :returns: the snapshots, and whether others between them and what was read may have been expired.
        """
        before = {ancestor for snapshot_id in read for ancestor in self.ancestors(snapshot_id)}
        line: list[Snapshot] = []
        next_id = self._head
        while next_id is not None and next_id not in before and (snapshot := self._snapshots.get(next_id)) is not None:
            line.append(snapshot)
            next_id = snapshot.parent_snapshot_id
        if next_id is not None and next_id in before:
            return line[::-1], False
        new = list(takewhile(is_after, line))
        return new[::-1], bool(new) and len(new) == len(line)

    def ancestors(self, snapshot_id: int) -> set[int]:
        """Return the snapshot's id and those of its ancestors, up to and with the first one that has been expired."""
        found: set[int] = set()
        next_id: int | None = snapshot_id
        while next_id is not None and next_id not in found:
            found.add(next_id)
            next_id = snapshot.parent_snapshot_id if (snapshot := self._snapshots.get(next_id)) is not None else None
        return found

    def has(self, snapshot_id: int) -> bool:
        """Whether the table still has the snapshot."""
        return snapshot_id in self._snapshots

    def head_before(self, moment: datetime) -> int | None:
        """Return the head of the main branch just before a moment, by the table's own log; ``None`` when the log has none."""
        earlier = [snapshot_id for snapshot_id, since in self._log if since < moment]
        return earlier[-1] if earlier else None

    def published_at(self, line: Collection[Snapshot]) -> dict[int, datetime]:
        """Return when each snapshot of a line became part of the main branch.

        That is when the main branch was moved to it, or to the first one after it: the snapshots of an audited branch arrive
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
