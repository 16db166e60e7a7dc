"""Builds inside of a task, and leaves registry and Spark tidy when Airflow ends the task.

class MyOperator(BuildsShards):
    def execute(self, context):
        with self.registry() as registry:
            written = self.write_run(context, registry)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.links import show_build
from airflow_snowpack.operators.base import StopsWhenKilled, owner_of
from airflow_snowpack.operators.build_arguments import TakesBuildArguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.builds.build import Build
    from airflow_snowpack.builds.build_spec import BuildInput, BuildSpec
    from airflow_snowpack.builds.model import Sharding
    from airflow_snowpack.builds.registry.model import RunHandle
    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.lineage.operation import DatasetAt, TableAt


@dataclass(frozen=True, slots=True)
class Written:
    """A run whose shards are written, and what the next steps need of it."""

    build: Build
    handle: RunHandle
    spec: BuildSpec
    sharding: Sharding
    build_input: BuildInput


class BuildsShards(TakesBuildArguments, StopsWhenKilled):
    """The part of an operator that writes shards."""

    _build: Build | None = None
    _handle: RunHandle | None = None  # of a run that is to be failed when the task is ended
    _lineage: tuple[str, str, Sequence[Mapping[str, Any]]] | None = None

    def write_run(self, context: Context, registry: BuildRegistry) -> Written:
        """Begin a run, and write its shards.

        :raises SparkUnavailable: this machine has no Spark to write with; nothing was begun.
        :raises BuildError: see :class:`~airflow_snowpack.builds.build.Build`; the run has failed with it.
        """
        from airflow_snowpack.builds.build import Build

        spec, as_of = self.spec(), self.moment(context)
        self._build = build = Build(registry, self.storage_at(self.address()))
        source = self.source(context)
        sharding = build.sharding(source, spec)
        with self.kill_postponed():
            handle = self._handle = build.begin(spec, sharding, as_of=as_of, owner=owner_of(context))
        self.log.info("The run %s of %s, as of %s, at %s", handle.run_id, spec.dataset, as_of.isoformat(), handle.url)
        show_build(self, context, spec.dataset, handle.run_id)
        build_input = build.write(handle, source, spec, sharding)
        self.tell_lineage(handle.url, handle.run_id, build_input.sources)
        return Written(build, handle, spec, sharding, build_input)

    def tell_lineage(self, url: str, run_id: str, sources: Sequence[Mapping[str, Any]]) -> None:
        """Remember for OpenLineage what the shards came from; the store learns of it when they are published."""
        self._lineage = url, run_id, sources

    def read_and_written(self) -> tuple[Sequence[TableAt | DatasetAt], Sequence[TableAt | DatasetAt]]:
        """The sources, and the dataset."""
        if self._lineage is None:
            return (), ()
        from airflow_snowpack.builds.registry.publications import source_tables
        from airflow_snowpack.lineage.operation import DatasetAt

        url, run_id, sources = self._lineage
        return source_tables(sources), (DatasetAt(url, run_id),)

    def leave_run(self) -> None:
        """From now on a kill leaves the run as it is: it may be published, and whoever has the dataset's lock next finds out."""
        self._handle = None

    def abandon(self, reason: str) -> None:
        """Stop the writers, and fail the run."""
        if self._build is not None:
            self._build.interrupt()
            if self._handle is not None:
                self._build.registry.fail(self._handle, reason)
