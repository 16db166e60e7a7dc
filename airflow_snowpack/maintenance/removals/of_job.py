"""The removals as one attempt at a job sees them: it plans lists for its table, and deletes one under its own fence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.maintenance.removals.errors import RemovalOfAnotherTable
from airflow_snowpack.maintenance.removals.model import VALID_FOR, Removal, RemovalKind, RemovalState
from airflow_snowpack.store import new_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.table import Table

    from airflow_snowpack.jobs.model import Job
    from airflow_snowpack.maintenance.removals.model import RemovalItem
    from airflow_snowpack.maintenance.removals.records import Removals


@dataclass(frozen=True, slots=True)
class ApprovalLimit:
    """Above which size a removal needs an approval; ``None`` for no limit.

    :param files: how many files it deletes at most without one; ``bytes`` likewise.
    """

    files: int | None
    bytes: int | None

    def is_exceeded(self, files: int, size: int | None) -> bool:
        """Return whether a removal of this size needs an approval. An unknown size exceeds any limit of bytes."""
        too_many = self.files is not None and files > self.files
        return too_many or (self.bytes is not None and (size is None or size > self.bytes))


@dataclass(frozen=True, slots=True)
class JobRemovals:
    """The removals of the table of a job, for the attempt that runs it."""

    records: Removals
    job: Job

    def plan(
        self,
        kind: RemovalKind,
        table: Table,
        items: Iterable[RemovalItem],
        *,
        settings: Mapping[str, Any],
        limit: ApprovalLimit,
        files: int | None = None,
        size: int | None = None,
    ) -> Removal | None:
        """Write the list of a plan; ``None`` for an empty one.

        :param table: as it was loaded before the list was made.
        :param settings: the options of the action.
        :param files: how many files the removal deletes; ``None``: one for each item. Likewise ``size``, in bytes.
        """
        now = self.records.store.clock()
        draft = Removal(
            removal_id=new_id(),
            table=self.job.table,
            kind=kind,
            state=RemovalState.PLANNED,
            planned_at=now,
            expires_at=now + VALID_FOR,
            planned_by_job=self.job.job_id,
            table_uuid=str(table.metadata.table_uuid),
            metadata_location=table.metadata_location,
            location=table.location(),
            settings=settings,
            bytes=size,
            requested_by=self.job.owner or self.job.submitted_by,
        )

        def needs_approval(planned: Removal) -> bool:
            return limit.is_exceeded(planned.item_count if files is None else files, planned.bytes)

        return self.records.plan(draft, items, needs_approval=needs_approval)

    def planned(self, kind: RemovalKind) -> Sequence[Removal]:
        """Return what attempts at this job have planned, the latest first."""
        return [removal for removal in reversed(self.records.planned_by(self.job.job_id)) if removal.kind is kind]

    def begin(self, removal_id: str, kind: RemovalKind) -> Removal:
        """Begin to delete a removal, or return it as it is if this job has deleted it.

        :raises RemovalNotFound, RemovalNotPossible, RemovalTakenOver: as :meth:`.Removals.begin`.
        :raises RemovalOfAnotherTable: the job is of another table, or its action deletes something else.
        """
        removal = self.records.get(removal_id)
        if removal.table.lock_key != self.job.table.lock_key or removal.kind is not kind:
            raise RemovalOfAnotherTable(removal, self.job.table)
        if removal.state is RemovalState.DELETED and removal.job_id == self.job.job_id:
            return removal
        return self.records.begin(removal_id, self.job.job_id, self.job.attempt_id or "")
