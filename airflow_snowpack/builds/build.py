"""A whole build: begin a run, write its shards, select the winners, publish, clean up.

    build = Build(registry, storage)
    outcome = build.run(SparkSource.table(session, table), spec, as_of=interval_end, owner="dag/run/task")

    handle = build.begin(spec, sharding, as_of=interval_end)         # or step by step, each in a process of its own
    build_input = build.write(handle, source, spec, sharding)
    manifest = build.select(handle, build_input, spec, sharding)
    outcome = build.publish(handle, manifest)

The invariants: while it works, the run's lease is renewed, and when somebody else has the run, the work stops; and **a run that
will not be published says so**, with its reason, as far as the registry can be reached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from airflow_snowpack.builds.build_spec import BuildInput, BuildSource, BuildSpec, Interrupt
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import BuildError, DatasetBusy, StorageFailed
from airflow_snowpack.builds.model import CleanupAction, Manifest, Retention, Sharding
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry.heartbeat import Heartbeat
from airflow_snowpack.builds.registry.model import PublishOutcome, RunHandle
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import keep_selection, read_attempts, select
from airflow_snowpack.store import StoreError

log = logging.getLogger(__name__)


class Build:
    """The steps of builds of one dataset.

    :param storage: the dataset's root.
    """

    def __init__(self, registry: BuildRegistry, storage: Storage) -> None:
        self.registry = registry
        self.storage = storage
        self.interrupt = Interrupt()
        """Call it to stop whatever this build is writing; from a signal handler too."""

    def run(
        self,
        source: BuildSource,
        spec: BuildSpec,
        *,
        as_of: datetime,
        owner: str | None = None,
        label: str | None = None,
        on_begin: Callable[[RunHandle], None] | None = None,
    ) -> PublishOutcome:
        """All steps.

        :param as_of: the moment that the data is of: the end of the data interval.
        :param owner: whose tries these are, such as a task instance; a later try takes an earlier one's run over.
        :param label: what the run is named after, instead of ``as_of``.
        :param on_begin: told of the run as soon as there is one.
        :raises BuildError: it was not published; the registry has the reason.
        """
        sharding = self.sharding(source, spec)
        handle = self.begin(spec, sharding, as_of=as_of, owner=owner, label=label)
        if on_begin is not None:
            on_begin(handle)
        build_input = self.write(handle, source, spec, sharding)
        manifest = self.select(handle, build_input, spec, sharding)
        outcome = self.publish(handle, manifest)
        if spec.retention is not None:
            self.clean_up(spec.dataset, spec.retention)
        return outcome

    def sharding(self, source: BuildSource, spec: BuildSpec) -> Sharding:
        """How the rows of a source will be placed; it may have to count its keys."""
        return spec.placed(lambda: source.count_keys(spec.key, self.interrupt))

    def begin(
        self, spec: BuildSpec, sharding: Sharding, *, as_of: datetime, owner: str | None = None, label: str | None = None
    ) -> RunHandle:
        """Begin a run; see :meth:`BuildRegistry.begin`."""
        return self.registry.begin(
            spec.dataset,
            self.storage.url,
            as_of=as_of,
            num_shards=sharding.num_shards,
            owner=owner,
            label=label,
            storage=self.storage,
        )

    def write(self, handle: RunHandle, source: BuildSource, spec: BuildSpec, sharding: Sharding) -> BuildInput:
        """Write all shards of a run.

        :raises StaleBuild: somebody else has the run.
        """
        with self._failing(handle, BaseException), self._alive(handle) as beat:
            try:
                build_input = source.write(self.storage, handle.run_id, spec, sharding, self.interrupt)
            except Exception:
                beat.check()  # then that is why the work was stopped
                raise
            beat.check()
            return build_input

    def select(self, handle: RunHandle, build_input: BuildInput, spec: BuildSpec, sharding: Sharding) -> Manifest:
        """Choose the winners among the attempts, by their durable records.

        :raises ShardCoverageError: a shard has no successful attempt.
        """
        with self._failing(handle, BuildError), self._alive(handle):
            attempts = read_attempts(self.storage, handle.run_id)
            return select(handle, attempts, build_input, sharding, spec.shard_format, self.registry.store.clock())

    def publish(self, handle: RunHandle, manifest: Manifest) -> PublishOutcome:
        """Have readers served what was selected; see :func:`publish`."""
        # Other errors may have left the pointer on this run; whoever has the dataset's lock next finds out.
        with self._failing(handle, StorageFailed), self._alive(handle):
            try:
                return publish(self.registry, self.storage, handle, manifest)
            except DatasetBusy:
                keep_selection(self.storage, manifest)  # the run is whole: whoever wants to may publish it
                raise

    def clean_up(self, dataset: str, retention: Retention) -> list[CleanupAction]:
        """Clean up after a publication, as far as that is possible: a failure is logged, and the next cleanup makes up for it."""
        try:
            return cleanup(self.registry, self.storage, dataset, retention)
        except (BuildError, StoreError) as error:
            log.warning("cleanup_failed: %s; the next one makes up for it: %s", dataset, error)
            return []

    @contextmanager
    def _alive(self, handle: RunHandle) -> Iterator[Heartbeat]:
        """Keep the run's lease; stop the work when it is lost."""
        policy = self.registry.policy
        beat = Heartbeat(
            lambda: self.registry.heartbeat(handle),
            every=policy.heartbeat,
            lease=policy.run_lease,
            what=f"the run {handle.run_id} of {handle.dataset}",
            on_lost=self.interrupt,
        )
        with beat:
            yield beat

    @contextmanager
    def _failing(self, handle: RunHandle, *errors: type[BaseException]) -> Iterator[None]:
        """Note in the registry that the run will not be published, when one of these errors ends it."""
        try:
            yield
        except errors as error:
            try:
                self.registry.fail(handle, str(error) or type(error).__name__)
            except StoreError:
                log.warning("failed_but_not_recorded: %s of %s: %s", handle.run_id, handle.dataset, error, exc_info=True)
            raise
