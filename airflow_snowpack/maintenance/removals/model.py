"""A removal: a list of files or snapshots that is planned, approved, and deleted exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_snowpack.durations import parse_duration
from airflow_snowpack.humanize import plural, size, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.iceberg.names import TableName

VALID_FOR = timedelta(days=7)
"""How long after its plan a removal can be approved and run."""


class RemovalKind(StrEnum):
    """What the list contains: paths of orphan files, or ids of snapshots."""

    ORPHANS = "orphans"
    SNAPSHOTS = "snapshots"


class RemovalState(StrEnum):
    """The state of a removal. ``REJECTED``, ``DELETED``, ``RESTORED``, ``EXPIRED`` and ``FAILED`` are final.

    ``PLANNED``: its list is being written, or is about to be deleted without an approval. ``EXPIRED``: it was not deleted in
    time, or a newer plan of the table replaces it. ``FAILED``: the table no longer allows it; or its attempt failed, and the next
    plan lists the rest, because no approval was needed. ``QUARANTINED``: it has ended, and files can be restored. ``RESTORED``:
    all of them were.
    """

    PLANNED = "planned"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    REJECTED = "rejected"
    DELETING = "deleting"
    QUARANTINED = "quarantined"
    DELETED = "deleted"
    RESTORED = "restored"
    EXPIRED = "expired"
    FAILED = "failed"

    @property
    def successors(self) -> frozenset[RemovalState]:
        return TRANSITIONS[self]

    @property
    def is_terminal(self) -> bool:
        return not self.successors


# The allowed transitions. DELETING may follow itself: another attempt continues, and the fence moves. DELETING is only rejected
# if the job was cancelled.
TRANSITIONS: Mapping[RemovalState, frozenset[RemovalState]] = {
    RemovalState.PLANNED: frozenset(
        {RemovalState.AWAITING_APPROVAL, RemovalState.DELETING, RemovalState.EXPIRED, RemovalState.FAILED}
    ),
    RemovalState.AWAITING_APPROVAL: frozenset({RemovalState.APPROVED, RemovalState.REJECTED, RemovalState.EXPIRED}),
    RemovalState.APPROVED: frozenset({RemovalState.DELETING, RemovalState.REJECTED, RemovalState.EXPIRED, RemovalState.FAILED}),
    RemovalState.DELETING: frozenset(
        {RemovalState.DELETING, RemovalState.APPROVED, RemovalState.DELETED, RemovalState.FAILED, RemovalState.REJECTED}
    ),
    RemovalState.QUARANTINED: frozenset({RemovalState.DELETED, RemovalState.RESTORED}),
    RemovalState.REJECTED: frozenset(),
    RemovalState.RESTORED: frozenset(),
    RemovalState.DELETED: frozenset(),
    RemovalState.EXPIRED: frozenset(),
    RemovalState.FAILED: frozenset(),
}


class ItemOutcome(StrEnum):
    """The outcome of one file or snapshot of a list.

    ``STARTED``: it passed all guards, and an attempt began to delete it. ``GONE``: it no longer existed. ``LEFT_OUT``: a guard
    protects it now. ``QUARANTINED``: it can be restored. ``RESTORED``: it is back in its place.
    """

    STARTED = "started"
    DELETED = "deleted"
    GONE = "gone"
    LEFT_OUT = "left_out"
    QUARANTINED = "quarantined"
    RESTORED = "restored"


COUNTED = {
    ItemOutcome.DELETED: "deleted_count",
    ItemOutcome.GONE: "gone_count",
    ItemOutcome.LEFT_OUT: "left_out_count",
    ItemOutcome.QUARANTINED: "quarantined_count",
    ItemOutcome.RESTORED: "restored_count",
}
"""The field of a removal with the total of each outcome."""


@dataclass(frozen=True, slots=True)
class RemovalItem:
    """One file or snapshot of a list.

    :param name: the path of a file in the storage, or the id of a snapshot.
    :param bytes: the size; for a snapshot, of the files that only expired snapshots need. ``None``: unknown.
    :param at: when the file was last modified or the snapshot committed.
    :param outcome: ``None`` until the removal is run.
    :param reason: why it was left out or could not be restored.
    """

    name: str
    bytes: int | None = None
    at: datetime | None = None
    outcome: ItemOutcome | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Removal:
    """A list of files or snapshots of one table that is planned, approved, and deleted exactly.

    :param table_uuid: of the table when planned, like ``metadata_location`` and ``location``; another table of the same name is
        never touched.
    :param settings: the options of the planning action, and what else its guards need.
    :param bytes: the total size; ``None``: unknown.
    :param planned_by_job: the job that planned it.
    :param job_id: the job that deletes it, or did last.
    :param attempt_id: the fence: the current or last attempt of that job; for a draft, the planning attempt.
    :param deleted_count: how many items are deleted; the other counts are of other outcomes, see :class:`ItemOutcome`.
    :param quarantined_until: when the files in quarantine may be deleted for good; ``None``: there are none.
    :param error: why it expired or failed, or why its last attempt ended early.
    """

    removal_id: str
    table: TableName
    kind: RemovalKind
    state: RemovalState
    planned_at: datetime
    expires_at: datetime
    planned_by_job: str
    table_uuid: str
    metadata_location: str
    location: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    item_count: int = 0
    bytes: int | None = None
    requested_by: str | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    comment: str | None = None
    job_id: str | None = None
    attempt_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    deleted_count: int = 0
    gone_count: int = 0
    left_out_count: int = 0
    quarantined_count: int = 0
    restored_count: int = 0
    quarantined_until: datetime | None = None
    error: str | None = None

    @property
    def quarantine(self) -> timedelta | None:
        """How long its files stay in quarantine; ``None``: they are deleted at once."""
        period = self.settings.get("quarantine")
        return None if period is None else parse_duration(period)

    @property
    def summary(self) -> str:
        """What it deletes, such as ``1,284 orphan files of 3.2 GiB of db.orders``."""
        items = plural(self.item_count, "orphan file" if self.kind is RemovalKind.ORPHANS else "snapshot")
        total = "" if self.bytes is None else f" of {size(self.bytes)}"
        return f"{items}{total} of {self.table.dotted}"

    @property
    def is_done(self) -> bool:
        """Whether an attempt has processed the whole list."""
        return self.error is None and self.state in (RemovalState.DELETED, RemovalState.QUARANTINED)

    @property
    def state_text(self) -> str:
        """The state as the predicate of a sentence."""
        until = f" until {timestamp(self.quarantined_until)}" if self.quarantined_until else ""
        decided = f" by {self.decided_by}" if self.decided_by else ""
        return {
            RemovalState.PLANNED: "is still being planned",
            RemovalState.AWAITING_APPROVAL: "awaits approval",
            RemovalState.APPROVED: f"was approved{decided}",
            RemovalState.REJECTED: f"was rejected{decided}",
            RemovalState.DELETING: f"is being deleted by job {self.job_id}",
            RemovalState.QUARANTINED: f"is in quarantine{until}",
            RemovalState.DELETED: "was deleted",
            RemovalState.RESTORED: "was restored",
            RemovalState.EXPIRED: "has expired" + (f" ({self.error})" if self.error else ", plan it again"),
            RemovalState.FAILED: f"has failed ({self.error})",
        }[self.state]
