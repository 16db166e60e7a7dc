"""Builds as API, pages and command line see them: inspect, verify, publish, roll back and clean up, each by the dataset's name.

    builds = BuildManager(registry, open_storage)
    builds.rollback("flights", to="-1", actor=Actor("vera", via="api"))
    builds.cleanup("flights", Retention(keep_runs=7), actor=None)          # a dry run

The invariant: a change of the current build and its audit entry are one transaction. A cleanup is many; its entry is written
before the first deletion.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import BuildNotFound
from airflow_snowpack.builds.model import CleanupAction, Retention
from airflow_snowpack.builds.pointer import manifest_at, published_pointer
from airflow_snowpack.builds.publish import outcome_of, publish_selected, rollback
from airflow_snowpack.builds.read.verify import Verification, verify
from airflow_snowpack.builds.registry.model import PublishOutcome
from airflow_snowpack.builds.registry.publications import audit_subject
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.run_inspection import SHARDS_PER_PAGE, RunInspection, inspect_run
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.durations import format_duration
from airflow_snowpack.store import Actor, write_audit


class BuildManager:
    """Inspects and changes the builds of all datasets.

    :param open_storage: opens the storage at a dataset's URL, with its credentials.
    """

    def __init__(self, registry: BuildRegistry, open_storage: Callable[[str], Storage]) -> None:
        self.registry = registry
        self._open_storage = open_storage

    def storage(self, dataset: str) -> Storage:
        """:raises DatasetNotFound: no build of this name was ever begun."""
        return self._open_storage(self.registry.dataset(dataset).url)

    def inspect(self, dataset: str, run_id: str, *, after: int = -1, limit: int = SHARDS_PER_PAGE) -> RunInspection:
        """See :func:`inspect_run`."""
        return inspect_run(self.registry, self.storage(dataset), dataset, run_id, after=after, limit=limit)

    def verify(self, dataset: str, run_id: str | None = None) -> Verification:
        """Read a published build back; see :func:`verify`.

        :param run_id: the run; ``None`` for the current build.
        :raises BuildError: there is no such build, or the pointer or the manifest is not what was written.
        """
        storage = self.storage(dataset)
        if run_id is None:
            current = published_pointer(storage)
            path, checksum = current.manifest, current.checksum
        else:
            run = self.registry.run(dataset, run_id)
            if run.manifest is None or run.checksum is None or run.deleted_at is not None:
                problem = "it is not published" if run.manifest is None else "it was cleaned up"
                raise BuildNotFound(dataset, run_id, problem)
            path, checksum = run.manifest, run.checksum
        return verify(storage, path, manifest_at(storage, path, checksum))

    def publish(self, dataset: str, run_id: str, *, actor: Actor) -> PublishOutcome:
        """Publish a run whose winners are selected; a published run stays as it is.

        :raises DatasetNotFound, BuildNotFound: there is no such run, it has failed, or its winners are not selected.
        :raises BuildError: see :func:`publish`.
        """
        storage = self.storage(dataset)
        self.registry.run(dataset, run_id)
        published = outcome_of(self.registry, dataset, run_id)  # without its selection, which cleanup may have deleted
        return published or publish_selected(self.registry, storage, dataset, run_id, holder=actor.name, actor=actor)[0]

    def rollback(self, dataset: str, to: str, *, actor: Actor) -> PublishOutcome:
        """Make another published build current; see :func:`rollback`."""
        return rollback(self.registry, self.storage(dataset), dataset, to, actor.name, actor=actor)

    def cleanup(self, dataset: str, retention: Retention, *, actor: Actor | None) -> list[CleanupAction]:
        """Delete what no reader and no writer needs.

        :param actor: ``None`` for a dry run, which only returns what would be deleted.
        """
        storage = self.storage(dataset)
        if actor is None:
            return cleanup(self.registry, storage, dataset, retention, dry_run=True)
        store, subject = self.registry.store, audit_subject(dataset)
        detail = {"keep_runs": retention.keep_runs, "stale_attempt_age": format_duration(retention.stale_attempt_age)}
        store.transact(lambda conn: write_audit(conn, store, actor, "cleanup_builds", subject, **detail))
        return cleanup(self.registry, storage, dataset, retention, holder=actor.name)
