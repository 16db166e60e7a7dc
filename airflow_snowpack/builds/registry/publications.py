"""The registry's part of a publication: recorded before readers can see it, and confirmed afterwards.

Invariants: only the process with the dataset's lock draws a number, and no number is drawn twice. The record exists before the
pointer is set, so the next lock holder finds an unconfirmed publication and completes it. A run's lineage is recorded once, in
the transaction that marks the run as succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.builds.errors import BuildNotFound, DatasetNotFound, StaleBuild
from airflow_snowpack.builds.model import MAX_PUBLICATION, Current, Manifest
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import Publication, PublicationKind, RunHandle, RunStatus, build_id, publication_from
from airflow_snowpack.builds.registry.runs import ended, fenced
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import record_operation
from airflow_snowpack.store import Actor, Store, repeatable, storable, write_audit
from airflow_snowpack.store.dialect import row_mapper
from airflow_snowpack.store.tables.builds import build_datasets, build_publications, build_runs

RunPlace = tuple[datetime, int]
"""A run's position in the order of its dataset's runs: ``as_of`` and ``sequence``."""


@dataclass(frozen=True, slots=True)
class StoredManifest:
    path: str
    checksum: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A change by an actor, for the audit trail; ``name`` is ``rollback_build``, for example."""

    actor: Actor
    name: str
    detail: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PublicationState:
    """A dataset's publications in the registry.

    :param current: the last confirmed publication.
    :param unconfirmed: a recorded publication that readers may or may not have seen.
    :param newest: the position of the newest run that was ever current.
    :param pointer_number: the pointer's number in the storage, if it was read.
    """

    dataset: str
    current: Publication | None
    unconfirmed: Publication | None
    newest: RunPlace | None
    pointer_number: int = 0

    @property
    def number(self) -> int:
        """The number of the current publication; 0 before the first."""
        return 0 if self.current is None else self.current.number


def read_state(store: Store, dataset: str) -> PublicationState:
    """Read a dataset's publications in one statement, or raise :class:`DatasetNotFound`."""
    row, entry = build_datasets.c, build_publications.c
    # After the last number, the latest draw may be smaller than the current number.
    from_current = sa.or_(entry.number >= sa.func.coalesce(row.publication, 0), entry.number == row.drawn)
    relevant = sa.or_(entry.done_at.is_(None), entry.number == row.publication)
    query = (
        sa.select(build_publications, row.publication, row.newest_as_of, row.newest_sequence, row.dataset.label("name"))
        .select_from(build_datasets)
        .join(build_publications, sa.and_(entry.dataset == row.dataset, from_current, relevant), isouter=True)
        .where(row.dataset == storable(dataset))
    )
    found = store.all(query)
    if not found:
        raise DatasetNotFound(dataset)
    first = found[0]
    recorded = [publication_from(each) for each in found if each.number is not None]
    current = next((each for each in recorded if each.number == first.publication), None)
    unconfirmed = max((each for each in recorded if each is not current), key=lambda each: each.number, default=None)
    newest = None if first.newest_as_of is None else (first.newest_as_of, first.newest_sequence)
    return PublicationState(first.name, current, unconfirmed, newest)


class Publications:
    """A lock holder's writes about the pointer; they raise ``StaleBuild`` if the lock is lost. ``change`` is audited."""

    def __init__(self, store: Store, lock: DatasetLock, change: AuditedChange | None = None) -> None:
        self._store = store
        self._lock = lock
        self._change = change

    def prepare(
        self,
        kind: PublicationKind,
        stored: StoredManifest,
        *,
        previous: tuple[str | None, str | None],
        above: int,
        by: str | None,
        handle: RunHandle | None = None,
    ) -> Publication:
        """Record that the pointer is about to be set, and draw its number.

        :param previous: the manifest to fall back to, and its checksum.
        :param above: the pointer's number in the storage; the new one is greater. The last number counts as 0, because readers
            accept any number after it. If this dataset drew it, the count continues at its half, above all others in use.
        :param handle: the attempt that must still own the run; ``None``: the run must have succeeded and not be cleaned up.
        :raises BuildNotFound: the run was cleaned up.
        """
        now, run_id = self._store.clock(), stored.manifest.run_id
        row = build_datasets.c
        above %= MAX_PUBLICATION
        drawn = sa.case((row.drawn >= MAX_PUBLICATION, MAX_PUBLICATION // 2), (row.drawn > above, row.drawn), else_=above) + 1
        draw = sa.update(build_datasets).where(row.dataset == self._lock.dataset).values(drawn=drawn).returning(row.drawn)

        def write(conn: sa.Connection) -> Publication:
            self._lock.renew_in(conn)
            self._check_run(conn, run_id, handle)
            publication = Publication(
                dataset=self._lock.dataset,
                number=conn.execute(draw).scalar_one(),
                run_id=run_id,
                kind=kind,
                manifest=stored.path,
                checksum=stored.checksum,
                previous=previous[0],
                previous_checksum=previous[1],
                at=now,
                by=None if by is None else storable(by),
            )
            entry = build_publications.c  # such a record exists only after the last number
            same = sa.and_(entry.dataset == publication.dataset, entry.number == publication.number)
            conn.execute(sa.delete(build_publications).where(same))
            conn.execute(sa.insert(build_publications).values(_row(publication)))
            return publication

        return self._store.transact(write)

    def _check_run(self, conn: sa.Connection, run_id: str, handle: RunHandle | None) -> None:
        run = build_runs.c
        kept = sa.and_(run.build_id == build_id(self._lock.dataset, run_id), run.deleted_at.is_(None))
        allowed = run.status == RunStatus.SUCCEEDED.value if handle is None else fenced(handle)
        if conn.execute(sa.select(run.run_id).where(kept, allowed).with_for_update()).first() is not None:
            return
        if handle is not None:
            raise StaleBuild(str(handle))
        raise BuildNotFound(self._lock.dataset, run_id, "it was cleaned up")

    def confirm(self, publication: Publication, stored: StoredManifest, newest: RunPlace | None) -> None:
        """Record that readers see the publication: its run has succeeded and is current. Idempotent.

        :param newest: the position of the newest run that was current before.
        """
        now, name = self._store.clock(), self._lock.dataset
        row, entry = build_datasets.c, build_publications.c
        this = sa.and_(entry.dataset == name, entry.number == publication.number)

        def write(conn: sa.Connection) -> None:
            self._lock.renew_in(conn)
            place = self._succeed(conn, stored, now, publication.by)
            highest = place if newest is None else max(place, newest)
            counted = publication.number % MAX_PUBLICATION
            drawn = sa.case((row.drawn > counted, row.drawn), else_=counted)
            current = {"publication": publication.number, "current_run": publication.run_id, "moved_at": publication.at}
            values = current | {"newest_as_of": highest[0], "newest_sequence": highest[1], "drawn": drawn}
            conn.execute(sa.update(build_datasets).where(row.dataset == name).values(values))
            if not conn.execute(sa.update(build_publications).where(this).values(done_at=now)).rowcount:
                conn.execute(sa.insert(build_publications).values(_row(publication) | {"done_at": now}))
            conn.execute(sa.delete(build_publications).where(self._unconfirmed(), entry.number != publication.number))
            self._audit(conn)

        self._store.transact(write)

    def keep_in_history(self, handle: RunHandle, stored: StoredManifest) -> None:
        """Mark the run as succeeded without making it current; raise ``StaleBuild`` if another attempt owns it."""
        now = self._store.clock()

        def write(conn: sa.Connection) -> bool:
            self._lock.renew_in(conn)
            self._check_run(conn, handle.run_id, handle)
            self._succeed(conn, stored, now, handle.owner)
            self._audit(conn)
            return True

        run = build_runs.c
        key = build_id(handle.dataset, handle.run_id)
        done = sa.select(run.run_id).where(run.build_id == key, run.manifest == stored.path)
        self._store.transact(repeatable(write, lambda conn: conn.execute(done).scalar() is not None))

    def withdraw(self, publication: Publication, handle: RunHandle | None, error: object) -> None:
        """Delete the record of a publication whose pointer was not set, and fail the run of ``handle`` with ``error``.

        Keep the record of another unconfirmed publication: the pointer may show that one.
        """
        this = build_publications.c.number == publication.number
        values = ended(RunStatus.FAILED, self._store.clock(), str(error))

        def write(conn: sa.Connection) -> None:
            self._lock.renew_in(conn)
            conn.execute(sa.delete(build_publications).where(self._unconfirmed(), this))
            if handle is not None:
                conn.execute(sa.update(build_runs).where(fenced(handle)).values(values))

        self._store.transact(write)

    def discard_unconfirmed(self) -> None:
        """Delete the records of publications that no reader can have seen and that will not be completed."""

        def write(conn: sa.Connection) -> None:
            self._lock.renew_in(conn)
            conn.execute(sa.delete(build_publications).where(self._unconfirmed()))

        self._store.transact(write)

    def _unconfirmed(self) -> sa.ColumnElement[bool]:
        return sa.and_(build_publications.c.dataset == self._lock.dataset, build_publications.c.done_at.is_(None))

    def _audit(self, conn: sa.Connection) -> None:
        if (change := self._change) is not None:
            write_audit(conn, self._store, change.actor, change.name, audit_subject(self._lock.dataset), **change.detail)

    def _succeed(self, conn: sa.Connection, stored: StoredManifest, now: datetime, by: str | None) -> RunPlace:
        """Mark the run of a published manifest as succeeded, whatever its state, and return its position."""
        run, manifest = build_runs.c, stored.manifest
        key = build_id(self._lock.dataset, manifest.run_id)
        found = conn.execute(sa.select(run.status, run.as_of, run.sequence).where(run.build_id == key).with_for_update()).first()
        facts = {"manifest": stored.path, "checksum": stored.checksum, "rows": manifest.rows, "bytes": manifest.bytes}
        if found is None:
            self._record_lineage(conn, manifest, now, by)
            return self._adopt_run(conn, stored, facts, now)
        if found.status != RunStatus.SUCCEEDED.value:
            values = facts | ended(RunStatus.SUCCEEDED, now)
            conn.execute(sa.update(build_runs).where(run.build_id == key).values(values))
            self._record_lineage(conn, manifest, now, by)
        return found.as_of, found.sequence

    def _record_lineage(self, conn: sa.Connection, manifest: Manifest, now: datetime, by: str | None) -> None:
        url = conn.execute(sa.select(build_datasets.c.url).where(build_datasets.c.dataset == self._lock.dataset)).scalar_one()
        record_operation(conn, build_operation(manifest, url=url, by=by, at=now))

    def _adopt_run(self, conn: sa.Connection, stored: StoredManifest, facts: dict[str, Any], now: datetime) -> RunPlace:
        """Register a run that only the pointer names, after the registry was lost or restored from an older copy."""
        row, manifest = build_datasets.c, stored.manifest
        counted = sa.update(build_datasets).where(row.dataset == self._lock.dataset).values(runs=row.runs + 1)
        sequence = conn.execute(counted.returning(row.runs)).scalar_one()
        name, run_id = self._lock.dataset, manifest.run_id
        values = facts | {
            **ended(RunStatus.SUCCEEDED, now),
            "dataset": name,
            "run_id": run_id,
            "build_id": build_id(name, run_id),
            "sequence": sequence,
            "num_shards": len(manifest.shards),
            "attempt_count": 0,
            "as_of": manifest.as_of,
            "started_at": manifest.created_at,
        }
        conn.execute(sa.insert(build_runs).values(values))
        return manifest.as_of, sequence


def audit_subject(dataset: str) -> str:
    return f"build:{dataset}"


pointer_of = row_mapper(Current, publication="number", moved_at="at")
"""Return the pointer for a publication, deterministically."""
publication_of = row_mapper(
    Publication, number="publication", at="moved_at", kind=lambda _: PublicationKind.PUBLISH, by=lambda _: None
)
"""Return the publication that a pointer shows; only the registry has its kind and actor."""


def build_operation(manifest: Manifest, *, url: str, by: str | None, at: datetime) -> Operation:
    """Return the lineage record of a run that the task instance or person ``by`` published."""
    return Operation(
        OperationKind.BUILD,
        at,
        inputs=source_tables(manifest.sources),
        outputs=(DatasetAt(url, manifest.run_id),),
        task=TaskRef.parse(by),
        rows=manifest.rows,
        detail={"dataset": manifest.dataset, "shards": len(manifest.shards), "bytes": manifest.bytes},
        operation_id=f"build:{build_id(manifest.dataset, manifest.run_id)}",
    )


def source_tables(sources: Iterable[Mapping[str, Any]]) -> tuple[TableAt, ...]:
    """Return the tables among a build's sources, which include queries and functions."""
    found = []
    for source in sources:
        table, snapshot_id = source.get("table"), source.get("snapshot_id")
        if isinstance(table, str):
            found.append(TableAt(table, snapshot_id if isinstance(snapshot_id, int) else None))
    return tuple(found)


def _row(publication: Publication) -> dict[str, Any]:
    return asdict(publication) | {"kind": publication.kind.value, "done_at": None}
