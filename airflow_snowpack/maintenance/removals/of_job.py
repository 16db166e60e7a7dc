"""The removals of a job's table: an attempt plans lists, and deletes one under its fence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.jobs.model import Job
from airflow_snowpack.maintenance.removals.errors import RemovalOfAnotherTable
from airflow_snowpack.maintenance.removals.model import VALID_FOR, Removal, RemovalItem, RemovalKind, RemovalState
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.store import new_id

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class JobRemovals:
    """The removals of a job's table, for the attempt that runs the job."""

    records: Removals
    job: Job

    def plan(
        self,
        kind: RemovalKind,
        table: Table,
        items: Iterable[RemovalItem],
        *,
        settings: Mapping[str, Any],
        files: int | None = None,
        size: int | None = None,
    ) -> Removal | None:
        """Write the list of a plan; return ``None`` for an empty one.

        :param table: as loaded before the list was made.
        :param settings: the options of the action with its limits, and what else the guards need.
        :param files: how many files the removal deletes; ``None``: one per item.
        :param size: their size in bytes; ``None``: the sum of the items.
        :raises RemovalTakenOver: the attempt has lost its job.
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
            attempt_id=self.job.attempt_id,
        )

        def needs_approval(planned: Removal) -> bool:
            too_many = _exceeds(planned.item_count if files is None else files, settings.get("approve_above_files"))
            return too_many or _exceeds(planned.bytes, settings.get("approve_above_bytes"))

        return self.records.plan(draft, items, needs_approval=needs_approval)

    def planned(self, kind: RemovalKind) -> Sequence[Removal]:
        """Return what attempts at this job have planned, latest first."""
        return [removal for removal in reversed(self.records.planned_by(self.job.job_id)) if removal.kind is kind]

    def of_table(self, removal_id: str, kind: RemovalKind = RemovalKind.ORPHANS) -> Removal:
        """Return a removal of the job's table.

        :raises RemovalNotFound: there is no such removal.
        :raises RemovalOfAnotherTable: it is of another table or action.
        """
        removal = self.records.get(removal_id)
        if removal.table.lock_key != self.job.table.lock_key or removal.kind is not kind:
            raise RemovalOfAnotherTable(removal, self.job.table)
        return removal

    def begin(self, removal_id: str, kind: RemovalKind) -> Removal:
        """Begin to delete a removal; return it unchanged if this job has already deleted it.

        :raises RemovalNotFound, RemovalNotPossible, RemovalTakenOver: see :meth:`.Removals.begin`.
        :raises RemovalOfAnotherTable: it is of another table or action.
        """
        removal = self.of_table(removal_id, kind)
        if removal.is_done and removal.job_id == self.job.job_id:
            return removal
        return self.records.begin(removal_id, self.job.job_id, self.job.attempt_id or "")


def _exceeds(amount: int | None, limit: int | None) -> bool:
    """Return whether an amount requires an approval. An unknown amount exceeds any limit."""
    return limit is not None and (amount is None or amount > limit)
