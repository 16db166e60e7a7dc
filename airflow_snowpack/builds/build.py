"""A whole build: begin a run, write its shards, select the winners, publish, clean up.

    build = Build(registry, storage)
    outcome = build.run(SparkSource.table(session, table), spec, as_of=interval_end, owner="dag/run/task")

    handle = build.begin(spec, sharding, as_of=interval_end)         # or step by step, in separate processes
    build_input = build.write(handle, source, spec, sharding)
    manifest = build.select(handle, build_input, spec, sharding)
    outcome = build.publish(handle, manifest)

Each step renews the run's lease and stops the work if another attempt takes over the run. A run that will not be published is
marked as failed if the registry can be reached.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from airflow_snowpack.builds.build_spec import BuildInput, BuildSource, BuildSpec, Interrupt
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import BuildError, BuildLeaseRanOut, DatasetBusy, StaleBuild, StorageFailed
from airflow_snowpack.builds.model import CleanupAction, FileCheck, Manifest, Retention, Sharding
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry.model import PublishOutcome, RunHandle
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.sharding import fewest_shards
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import keep_selection, read_attempts, select
from airflow_snowpack.store import StoreError
from airflow_snowpack.store.keep_alive import KeepAlive, Loss

log = logging.getLogger(__name__)


class Build:
    """The steps of a dataset's builds; ``storage`` is the dataset's root."""

    def __init__(self, registry: BuildRegistry, storage: Storage) -> None:
        self.registry = registry
        self.storage = storage
        self.interrupt = Interrupt()
        """Stops the writers; a signal handler may call it."""

    def run(
        self,
        source: BuildSource,
        spec: BuildSpec,
        *,
        as_of: datetime,
        owner: str | None = None,
        label: str | None = None,
        verify: FileCheck = FileCheck.SIZES,
    ) -> PublishOutcome:
        """Run all steps.

        :param as_of: the end of the data interval.
        :param owner: the task instance; a later try of the same owner fails an earlier try's run.
        :param label: the run's name; ``None`` for ``as_of``.
        :param verify: see :func:`publish`.
        :raises BuildError: the run was not published; the registry has the reason.
        """
        sharding = self.sharding(source, spec)
        handle = self.begin(spec, sharding, as_of=as_of, owner=owner, label=label)
        build_input = self.write(handle, source, spec, sharding)
        manifest = self.select(handle, build_input, spec, sharding)
        outcome = self.publish(handle, manifest, verify=verify)
        if spec.retention is not None:
            self.clean_up(spec.dataset, spec.retention)
        return outcome

    def sharding(self, source: BuildSource, spec: BuildSpec) -> Sharding:
        """Return the spec's sharding, or compute it from the source's counted keys; raises like :func:`fewest_shards`."""
        if spec.sharding is not None:
            return spec.sharding
        assert spec.max_keys_per_shard is not None
        return Sharding.hash(fewest_shards(source.count_keys(spec.key, self.interrupt), spec.max_keys_per_shard))

    def begin(
        self, spec: BuildSpec, sharding: Sharding, *, as_of: datetime, owner: str | None = None, label: str | None = None
    ) -> RunHandle:
        """Begin a run; see :meth:`BuildRegistry.begin`."""
        num_shards, storage = sharding.num_shards, self.storage
        return self.registry.begin(
            spec.dataset, storage.url, as_of=as_of, num_shards=num_shards, owner=owner, label=label, storage=storage
        )

    def write(self, handle: RunHandle, source: BuildSource, spec: BuildSpec, sharding: Sharding) -> BuildInput:
        """Write all shards of a run; raise :class:`StaleBuild` if another attempt takes it over or its lease expires."""
        with self._fails_run(handle, BaseException), self._kept_alive(handle) as lease:
            try:
                build_input = source.write(self.storage, handle.run_id, spec, sharding, self.interrupt)
            except Exception:
                check_lease(lease, handle)  # if the lease is lost, that is what stopped the work
                raise
            check_lease(lease, handle)
            return build_input

    def select(self, handle: RunHandle, build_input: BuildInput, spec: BuildSpec, sharding: Sharding) -> Manifest:
        """Select the winners by the attempts' records; raise :class:`ShardCoverageError` if a shard has no successful attempt."""
        with self._fails_run(handle, BuildError), self._kept_alive(handle):
            attempts = read_attempts(self.storage, handle.run_id)
            return select(handle, attempts, build_input, sharding, spec.shard_format, self.registry.store.clock())

    def publish(self, handle: RunHandle, manifest: Manifest, *, verify: FileCheck = FileCheck.SIZES) -> PublishOutcome:
        """Publish the selection; see :func:`publish`."""
        # After other errors the pointer may name this run; the next holder of the dataset's lock finds out.
        with self._fails_run(handle, StorageFailed), self._kept_alive(handle):
            try:
                return publish(self.registry, self.storage, handle, manifest, verify=verify)
            except DatasetBusy:
                keep_selection(self.storage, manifest)  # the run is complete and can be published later
                raise

    def clean_up(self, dataset: str, retention: Retention) -> list[CleanupAction]:
        """Clean up after a publication. A failure is logged; the next cleanup deletes the rest."""
        try:
            return cleanup(self.registry, self.storage, dataset, retention)
        except (BuildError, StoreError) as error:
            log.warning("cleanup_failed: %s; the next cleanup deletes what is left: %s", dataset, error)
            return []

    @contextmanager
    def _kept_alive(self, handle: RunHandle) -> Iterator[KeepAlive]:
        """Renew the run's lease during the block, and stop the work if it is lost."""
        policy = self.registry.policy
        beat, lost_after = partial(self.registry.heartbeat, handle), policy.run_lease
        with KeepAlive(beat, every=policy.heartbeat, lost_after=lost_after, what=str(handle), on_lost=self.interrupt) as lease:
            yield lease

    @contextmanager
    def _fails_run(self, handle: RunHandle, *errors: type[BaseException]) -> Iterator[None]:
        """Mark the run as failed if one of these errors ends the block."""
        try:
            yield
        except errors as error:
            try:
                self.registry.fail(handle, str(error) or type(error).__name__)
            except StoreError:
                log.warning("failed_but_not_recorded: %s of %s: %s", handle.run_id, handle.dataset, error, exc_info=True)
            raise


def check_lease(lease: KeepAlive, handle: RunHandle) -> None:
    """Raise :class:`StaleBuild` if the lease is lost."""
    if lease.lost is Loss.RAN_OUT:
        raise BuildLeaseRanOut(str(handle))
    if lease.lost is not None:
        raise StaleBuild(str(handle))
