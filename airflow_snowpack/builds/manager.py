"""What people and programs ask of builds from outside of a DAG, each change with its entry in the audit trail.

    desk = BuildDesk(registry, open_storage, Actor("vera", via="api"))
    desk.rollback("flights", to="-1")
    desk.cleanup("flights", Retention(keep_runs=7), dry_run=True)

The invariant: a move of the pointer and its entry are one transaction. A cleanup is many; its entry is written before the first
deletion, so that nothing is ever deleted without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sqlalchemy as sa

from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import BuildNotFound
from airflow_snowpack.builds.model import CleanupAction, Retention
from airflow_snowpack.builds.pointer import manifest_at, published_pointer
from airflow_snowpack.builds.publish import outcome_of, publish, rollback
from airflow_snowpack.builds.read.verify import Verification, verify
from airflow_snowpack.builds.registry.model import PublishOutcome
from airflow_snowpack.builds.registry.publications import Also
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.run_inspection import SHARDS, RunSeen, look_at
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import kept_selection
from airflow_snowpack.durations import format_duration
from airflow_snowpack.store import Actor, storable, write_audit

OpenStorage = Callable[[str], Storage]


def audit_subject(dataset: str) -> str:
    """What the audit trail calls a dataset."""
    return f"build:{dataset}"


class BuildDesk:
    """Takes requests on behalf of one actor.

    :param open_storage: opens the storage at a dataset's URL; the registry knows no more of it than that.
    :param actor: ``None`` for somebody who only looks.
    """

    def __init__(self, registry: BuildRegistry, open_storage: OpenStorage, actor: Actor | None = None) -> None:
        self.registry = registry
        self._open_storage = open_storage
        self._actor = actor and replace(actor, name=storable(actor.name))

    def storage(self, dataset: str) -> Storage:
        """:raises DatasetNotFound: nothing was ever built under this name."""
        return self._open_storage(self.registry.dataset(dataset).url)

    def look(self, dataset: str, run_id: str, *, after: int = -1, limit: int = SHARDS) -> RunSeen:
        """See :func:`look_at`."""
        return look_at(self.registry, self.storage(dataset), dataset, run_id, after=after, limit=limit)

    def verify(self, dataset: str, run_id: str | None = None) -> Verification:
        """Read a published build back; see :func:`verify`.

        :param run_id: the run; ``None`` for the one that ``_CURRENT`` names.
        :raises DatasetNotFound, BuildNotFound, NothingPublished: there is no such build.
        :raises ManifestDamaged: the pointer or the manifest is not what was written.
        """
        storage = self.storage(dataset)
        if run_id is None:
            current = published_pointer(storage)
            path, checksum = current.manifest, current.checksum
        else:
            run = self.registry.run(dataset, run_id)
            if run.manifest is None or run.checksum is None or run.deleted_at is not None:
                what = "it is not published" if run.manifest is None else "it was cleaned up"
                raise BuildNotFound(dataset, run_id, what)
            path, checksum = run.manifest, run.checksum
        return verify(storage, path, manifest_at(storage, path, checksum))

    def publish(self, dataset: str, run_id: str) -> PublishOutcome:
        """Publish a run whose winners were selected, and that nobody has published yet.

        Whoever has the run loses it: nobody else can publish it, or fail it, any more. One that is published stays as it is.

        :raises DatasetNotFound, BuildNotFound: there is no such run, it has failed, or its winners were not selected.
        :raises BuildError: see :func:`publish`.
        """
        actor, storage = self._who(), self.storage(dataset)
        self.registry.run(dataset, run_id)
        published = outcome_of(self.registry, dataset, run_id)
        if published is not None:
            return published
        manifest = kept_selection(storage, dataset, run_id)
        handle = self.registry.resume(dataset, run_id, holder=actor.name)
        also = self._entry("publish_build", dataset, run_id=run_id)
        return publish(self.registry, storage, handle, manifest, by=actor.name, also=also)

    def rollback(self, dataset: str, to: str) -> PublishOutcome:
        """Let readers see another published build.

        :param to: see :func:`rollback`.
        :raises BuildError: see :func:`rollback`.
        """
        also = self._entry("rollback_build", dataset, to=to)
        return rollback(self.registry, self.storage(dataset), dataset, to, self._who().name, also=also)

    def cleanup(self, dataset: str, retention: Retention, *, dry_run: bool = False) -> list[CleanupAction]:
        """Delete what nobody needs, or tell what that would be.

        :raises BuildError: see :func:`cleanup`.
        """
        storage = self.storage(dataset)
        if dry_run:
            return cleanup(self.registry, storage, dataset, retention, dry_run=True)
        told = {"keep_runs": retention.keep_runs, "stale_attempt_age": format_duration(retention.stale_attempt_age)}
        self.registry.store.transact(self._entry("cleanup_builds", dataset, **told))
        return cleanup(self.registry, storage, dataset, retention, holder=self._who().name)

    def _entry(self, change: str, dataset: str, **detail: object) -> Also:
        actor, store = self._who(), self.registry.store

        def write(conn: sa.Connection) -> None:
            write_audit(conn, store, actor, change, audit_subject(dataset), **detail)

        return write

    def _who(self) -> Actor:
        if self._actor is None:
            raise TypeError("Somebody who only looks cannot change anything; give the desk an actor.")
        return self._actor
