"""The registry's side of a move of the pointer: it is noted before readers can see it, and confirmed afterwards.

    moves = Moves(store, lock)
    standing = moves.standing()
    publication = moves.intend(PublicationKind.PUBLISH, served, previous=…, above=standing.seen, by="etl", held_by=handle)
    set_pointer(storage, pointer_of(publication), lock, …)
    moves.confirm(publication, served, standing.newest)

The invariants: a number is drawn by one holder of the lock alone and never given away again; and **a move that somebody saw is
never forgotten**, because the note is there before the pointer: whoever has the lock next finds it and completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.builds.errors import BuildNotFound, DatasetNotFound, StaleBuild
from airflow_snowpack.builds.model import Current, Manifest, RunStatus
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import Publication, PublicationKind, RunHandle, build_id, publication_from
from airflow_snowpack.builds.registry.runs import ended, fenced, what_is_held
from airflow_snowpack.store import Store, repeatable, storable
from airflow_snowpack.store.build_tables import build_datasets, build_publications, build_runs
from airflow_snowpack.store.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.store.operations import record_operation

Also = Callable[[sa.Connection], None]
Place = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class Served:
    """A manifest that can be served, as it was found in the storage."""

    path: str
    checksum: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a dataset stands by the registry.

    :param current: the last move that is confirmed.
    :param intended: a move of which nobody knows yet whether readers have seen it.
    :param newest: the place of the newest run that was ever current.
    :param seen: the number of the pointer in the storage, where somebody has looked.
    """

    dataset: str
    current: Publication | None
    intended: Publication | None
    newest: Place | None
    seen: int = 0

    @property
    def number(self) -> int:
        """The number of the current publication; 0 before the first."""
        return 0 if self.current is None else self.current.number


def pointer_of(publication: Publication) -> Current:
    """The pointer that a publication writes: always the same bytes for the same publication."""
    return Current(
        dataset=publication.dataset,
        publication=publication.number,
        run_id=publication.run_id,
        manifest=publication.manifest,
        checksum=publication.checksum,
        moved_at=publication.at,
        previous=publication.previous,
        previous_checksum=publication.previous_checksum,
    )


def read_standing(store: Store, dataset: str) -> Standing:
    """Where the dataset stands; one statement.

    :raises DatasetNotFound: nothing was ever built under this name.
    """
    row, move = build_datasets.c, build_publications.c
    from_current = move.number >= sa.func.coalesce(row.publication, 0)
    known = sa.or_(move.done_at.is_(None), move.number == row.publication)
    query = (
        sa.select(build_publications, row.publication, row.newest_as_of, row.newest_sequence, row.dataset.label("name"))
        .select_from(build_datasets)
        .join(build_publications, sa.and_(move.dataset == row.dataset, from_current, known), isouter=True)
        .where(row.dataset == storable(dataset))
    )
    found = store.read(lambda conn: conn.execute(query).all())
    if not found:
        raise DatasetNotFound(dataset)
    first = found[0]
    moves = [publication_from(each) for each in found if each.number is not None]
    current = next((each for each in moves if each.number == first.publication), None)
    intended = max((each for each in moves if each is not current), key=lambda each: each.number, default=None)
    newest = None if first.newest_as_of is None else (first.newest_as_of, first.newest_sequence)
    return Standing(first.name, current, intended, newest)


class Moves:
    """What the holder of a dataset's lock writes about its pointer; ``StaleBuild`` once the lock is lost."""

    def __init__(self, store: Store, lock: DatasetLock) -> None:
        self._store = store
        self._lock = lock

    def standing(self) -> Standing:
        return read_standing(self._store, self._lock.dataset)

    def intend(
        self,
        kind: PublicationKind,
        served: Served,
        *,
        previous: tuple[str | None, str | None],
        above: int,
        by: str | None,
        held_by: RunHandle | None = None,
    ) -> Publication:
        """Note that the pointer is about to be set, and draw its number.

        :param previous: the manifest to fall back to, and its checksum.
        :param above: the number is greater than this one: what the storage's pointer says.
        :param held_by: the attempt that must still have the run; ``None``: the run must have succeeded and still be there.
        :raises BuildNotFound: the run was cleaned up.
        """
        now, run_id = self._store.clock(), served.manifest.run_id
        row = build_datasets.c
        drawn = sa.case((row.drawn > above, row.drawn), else_=above) + 1
        draw = sa.update(build_datasets).where(row.dataset == self._lock.dataset).values(drawn=drawn).returning(row.drawn)

        def write(conn: sa.Connection) -> Publication:
            self._lock.holds(conn)
            self._check_run(conn, run_id, held_by)
            publication = Publication(
                dataset=self._lock.dataset,
                number=conn.execute(draw).scalar_one(),
                run_id=run_id,
                kind=kind,
                manifest=served.path,
                checksum=served.checksum,
                previous=previous[0],
                previous_checksum=previous[1],
                at=now,
                by=None if by is None else storable(by),
            )
            conn.execute(sa.insert(build_publications).values(_row(publication)))
            return publication

        return self._store.transact(write)

    def _check_run(self, conn: sa.Connection, run_id: str, held_by: RunHandle | None) -> None:
        run = build_runs.c
        there = sa.and_(run.build_id == build_id(self._lock.dataset, run_id), run.deleted_at.is_(None))
        allowed = run.status == RunStatus.SUCCEEDED.value if held_by is None else fenced(held_by)
        if conn.execute(sa.select(run.run_id).where(there, allowed).with_for_update()).first() is not None:
            return
        if held_by is not None:
            raise StaleBuild(what_is_held(held_by))
        raise BuildNotFound(self._lock.dataset, run_id, "it was cleaned up")

    def confirm(self, publication: Publication, served: Served, newest: Place | None, *, also: Also | None = None) -> None:
        """Note that readers see it: the dataset stands there, and the run has succeeded. Repeating it changes nothing.

        :param newest: the place of the newest run that was current before.
        :param also: written in the same transaction.
        """
        now, name = self._store.clock(), self._lock.dataset
        row, move = build_datasets.c, build_publications.c
        this = sa.and_(move.dataset == name, move.number == publication.number)
        others = sa.and_(move.dataset == name, move.done_at.is_(None), move.number != publication.number)

        def write(conn: sa.Connection) -> None:
            self._lock.holds(conn)
            place = self._succeed(conn, served, now, publication.by)
            highest = place if newest is None else max(place, newest)
            moved = {"publication": publication.number, "current_run": publication.run_id, "moved_at": publication.at}
            drawn = sa.case((row.drawn > publication.number, row.drawn), else_=publication.number)
            values = moved | {"newest_as_of": highest[0], "newest_sequence": highest[1], "drawn": drawn}
            conn.execute(sa.update(build_datasets).where(row.dataset == name).values(values))
            if not conn.execute(sa.update(build_publications).where(this).values(done_at=now)).rowcount:
                conn.execute(sa.insert(build_publications).values(_row(publication) | {"done_at": now}))
            conn.execute(sa.delete(build_publications).where(others))
            if also is not None:
                also(conn)

        self._store.transact(write)

    def keep_in_history(self, handle: RunHandle, served: Served, *, also: Also | None = None) -> None:
        """The run has succeeded, and the pointer stays where it is.

        :raises StaleBuild: the run is no longer held by this attempt.
        """
        now = self._store.clock()

        def write(conn: sa.Connection) -> object:
            self._lock.holds(conn)
            self._check_run(conn, handle.run_id, handle)
            self._succeed(conn, served, now, handle.owner)
            return None if also is None else also(conn)

        run = build_runs.c
        key = build_id(handle.dataset, handle.run_id)
        mine = sa.select(run.run_id).where(run.build_id == key, run.manifest == served.path)
        self._store.transact(repeatable(write, lambda conn: conn.execute(mine).scalar()))

    def withdraw(self, publication: Publication, handle: RunHandle | None, error: object) -> None:
        """The pointer was not set, and is what it was: take the note back, and fail the run that ``handle`` has."""
        move = build_publications.c
        note = sa.and_(move.dataset == self._lock.dataset, move.number == publication.number, move.done_at.is_(None))
        values = ended(RunStatus.FAILED, self._store.clock(), str(error))

        def write(conn: sa.Connection) -> None:
            self._lock.holds(conn)
            conn.execute(sa.delete(build_publications).where(note))
            if handle is not None:
                conn.execute(sa.update(build_runs).where(fenced(handle)).values(values))

        self._store.transact(write)

    def forget_intended(self) -> None:
        """Nobody can have seen what was intended, and nobody will."""
        move = build_publications.c
        notes = sa.and_(move.dataset == self._lock.dataset, move.done_at.is_(None))

        def write(conn: sa.Connection) -> None:
            self._lock.holds(conn)
            conn.execute(sa.delete(build_publications).where(notes))

        self._store.transact(write)

    def _succeed(self, conn: sa.Connection, served: Served, now: datetime, by: str | None) -> Place:
        """The run of a manifest that is published has succeeded, whatever was known of it; its place among the runs."""
        run, manifest = build_runs.c, served.manifest
        key = build_id(self._lock.dataset, manifest.run_id)
        found = conn.execute(sa.select(run.status, run.as_of, run.sequence).where(run.build_id == key).with_for_update()).first()
        facts = {"manifest": served.path, "checksum": served.checksum, "rows": manifest.rows, "bytes": manifest.bytes}
        if found is None:
            self._tell_lineage(conn, manifest, now, by)
            return self._adopt_run(conn, served, facts, now)
        if found.status != RunStatus.SUCCEEDED.value:
            values = facts | ended(RunStatus.SUCCEEDED, now)
            conn.execute(sa.update(build_runs).where(run.build_id == key).values(values))
            self._tell_lineage(conn, manifest, now, by)
        return found.as_of, found.sequence

    def _tell_lineage(self, conn: sa.Connection, manifest: Manifest, now: datetime, by: str | None) -> None:
        url = conn.execute(sa.select(build_datasets.c.url).where(build_datasets.c.dataset == self._lock.dataset)).scalar_one()
        record_operation(conn, build_operation(manifest, url=url, by=by, at=now))

    def _adopt_run(self, conn: sa.Connection, served: Served, facts: dict[str, Any], now: datetime) -> Place:
        """The pointer names a run of which the registry does not know: it was lost, or is an older copy of itself."""
        row, manifest = build_datasets.c, served.manifest
        counted = sa.update(build_datasets).where(row.dataset == self._lock.dataset).values(runs=row.runs + 1)
        sequence = conn.execute(counted.returning(row.runs)).scalar_one()
        values = ended(RunStatus.SUCCEEDED, now) | facts
        name, run_id = self._lock.dataset, manifest.run_id
        named = {"dataset": name, "run_id": run_id, "build_id": build_id(name, run_id)}
        counts = {"sequence": sequence, "num_shards": len(manifest.shards), "attempt_count": 0}
        moments = {"as_of": manifest.as_of, "started_at": manifest.created_at}
        conn.execute(sa.insert(build_runs).values(values | named | counts | moments))
        return manifest.as_of, sequence


def of_pointer(pointer: Current, kind: PublicationKind = PublicationKind.PUBLISH) -> Publication:
    """The move that a pointer in the storage tells of."""
    return Publication(
        dataset=pointer.dataset,
        number=pointer.publication,
        run_id=pointer.run_id,
        kind=kind,
        manifest=pointer.manifest,
        checksum=pointer.checksum,
        previous=pointer.previous,
        previous_checksum=pointer.previous_checksum,
        at=pointer.moved_at,
        by=None,
    )


def _row(publication: Publication) -> dict[str, Any]:
    names = ("dataset", "number", "run_id", "manifest", "checksum", "previous", "previous_checksum", "at", "by")
    return {name: getattr(publication, name) for name in names} | {"kind": publication.kind.value, "done_at": None}


def build_operation(manifest: Manifest, *, url: str, by: str | None, at: datetime) -> Operation:
    """A run that was published, if only into history.

    :param by: who published it, by the name of a task instance or any other.
    """
    return Operation(
        OperationKind.BUILD,
        at,
        inputs=tables_among(manifest.sources),
        outputs=(DatasetAt(url, manifest.run_id),),
        task=TaskRef.parse(by),
        rows=manifest.rows,
        detail={"dataset": manifest.dataset, "shards": len(manifest.shards), "bytes": manifest.bytes},
        operation_id=f"build:{build_id(manifest.dataset, manifest.run_id)}",
    )


def tables_among(sources: Iterable[Mapping[str, Any]]) -> tuple[TableAt, ...]:
    """The tables among a build's sources, which may also be queries and functions."""
    found = []
    for source in sources:
        table, snapshot_id = source.get("table"), source.get("snapshot_id")
        if isinstance(table, str):
            found.append(TableAt(table, snapshot_id if isinstance(snapshot_id, int) else None))
    return tuple(found)
