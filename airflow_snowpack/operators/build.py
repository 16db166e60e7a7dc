"""Build a sharded snapshot in one task, or write its shards for the steps that follow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.links import show_build
from airflow_snowpack.operators.arguments import read_number, read_period
from airflow_snowpack.operators.base import StopsWhenKilled, owner_of
from airflow_snowpack.operators.build_base import BUILD_FIELDS, TakesBuildArguments, cleanup_numbers, published_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.builds.build import Build
    from airflow_snowpack.builds.build_spec import BuildInput, BuildSpec
    from airflow_snowpack.builds.model import Retention, Sharding
    from airflow_snowpack.builds.registry.model import RunHandle
    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.lineage.operation import DatasetAt, TableAt


@dataclass(frozen=True, slots=True)
class WrittenBuild:
    """A run whose shards are written, and what the next steps need from it."""

    build: Build
    handle: RunHandle
    spec: BuildSpec
    sharding: Sharding
    build_input: BuildInput


class BuildsShards(TakesBuildArguments, StopsWhenKilled):
    """Base of the operators that write shards. Each try begins a new run, and fails the run that the try before left."""

    _build: Build | None = None
    _handle: RunHandle | None = None  # the run that a kill fails
    _lineage: tuple[str, str, Sequence[Mapping[str, Any]]] | None = None

    def write_run(self, context: Context, registry: BuildRegistry) -> WrittenBuild:
        """Begin a run, and write its shards.

        :raises SparkUnavailable: this machine has no Spark; no run was begun.
        :raises BuildError: see :class:`~airflow_snowpack.builds.build.Build`; the run has failed.
        """
        from airflow_snowpack.builds.build import Build
        from airflow_snowpack.operators.build_source import source_of

        spec, as_of = self.spec(), self.moment(context)
        self._build = build = Build(registry, self.storage_at(self.address()))
        source = source_of(self, context)
        sharding = build.sharding(source, spec)
        with self.kill_postponed():
            handle = self._handle = build.begin(spec, sharding, as_of=as_of, owner=owner_of(context))
        self.log.info("The run %s of %s, as of %s, at %s", handle.run_id, spec.dataset, as_of.isoformat(), handle.url)
        show_build(self, context, spec.dataset, handle.run_id)
        build_input = build.write(handle, source, spec, sharding)
        self.report_lineage(handle.url, handle.run_id, build_input.sources)
        return WrittenBuild(build, handle, spec, sharding, build_input)

    def report_lineage(self, url: str, run_id: str, sources: Sequence[Mapping[str, Any]]) -> None:
        """Keep the sources of the shards for OpenLineage; the store records them only with the publication."""
        self._lineage = url, run_id, sources

    def read_and_written(self) -> tuple[Sequence[TableAt | DatasetAt], Sequence[TableAt | DatasetAt]]:
        if self._lineage is None:
            return (), ()
        from airflow_snowpack.builds.registry.publications import source_tables
        from airflow_snowpack.lineage.operation import DatasetAt

        url, run_id, sources = self._lineage
        return source_tables(sources), (DatasetAt(url, run_id),)

    def leave_run(self) -> None:
        """Keep a kill from failing the run from now on: it may be published, which the next holder of the lock finds out."""
        self._handle = None

    def abandon(self, reason: str) -> None:
        if self._build is not None:
            self._build.interrupt()
            if self._handle is not None:
                self._build.registry.fail(self._handle, reason)


class BuildShardsOperator(BuildsShards):
    """Begins a run and writes all of its shards.

        write = BuildShardsOperator(task_id="write", dataset="features", table="web.features", key="user_id", num_shards=64)
        select = SelectWinnersOperator(task_id="select", build=write.output)
        publish = PublishBuildOperator(task_id="publish", build=select.output)

    The arguments are those of :class:`~airflow_snowpack.operators.build_base.TakesBuildArguments`. Returns the run, for the
    :class:`~airflow_snowpack.operators.SelectWinnersOperator`.
    """

    template_fields: Sequence[str] = BUILD_FIELDS

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.operators.build_steps import Handover

        with self.registry() as registry:
            written = self.write_run(context, registry)
        handle = written.handle
        handed = Handover(handle.dataset, handle.run_id, written.sharding, written.spec.shard_format, written.build_input)
        return handed.to_json()


class ShardedBuildOperator(BuildsShards):
    """Builds a sharded snapshot, publishes it and cleans up, all in one task. Most DAGs need only this operator.

        ShardedBuildOperator(
            task_id="build",
            dataset="features_by_user",
            sql="SELECT * FROM web.features WHERE day < DATE '{{ data_interval_end | ds }}'",
            key="user_id",
            num_shards=64,
            shard_format="sqlite",
        )

    Each try builds a new run, as of the end of the data interval. Readers get either the previous build or this one, as a whole,
    even if the task is killed. A backfill of older days never replaces newer data.

    :param keep_runs: how many published runs the cleanup keeps, the newest first; ``None`` for no cleanup.
    :param stale_attempt_age: the cleanup treats a run as dead when no process has had its lease for this long.
    :param verify: ``checksums`` to read each shard's file and verify it before the build becomes current; ``sizes`` to check in
        one listing that each exists with its size.

    The other arguments are those of :class:`~airflow_snowpack.operators.build_base.TakesBuildArguments`.

    Returns the publication and the build's numbers; ``moved``: whether it is the current build now, and if not, the ``reason``.
    If it is, the task emits an event on the asset ``snowpack://builds/<dataset>``.
    """

    template_fields: Sequence[str] = (*BUILD_FIELDS, "keep_runs", "stale_attempt_age", "verify")

    def __init__(
        self,
        *,
        keep_runs: int | str | None = 7,
        stale_attempt_age: timedelta | str = timedelta(days=1),
        verify: str = "sizes",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.keep_runs = keep_runs
        self.stale_attempt_age = stale_attempt_age
        self.verify = verify
        self.declare_outlet(self.dataset)

    def retention(self) -> Retention | None:
        from airflow_snowpack.builds.model import Retention

        keep_runs = read_number("keep_runs", self.keep_runs)
        return None if keep_runs is None else Retention(keep_runs, read_period("stale_attempt_age", self.stale_attempt_age))

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.builds.model import FileCheck

        verify = FileCheck.read(self.verify)
        with self.registry() as registry:
            written = self.write_run(context, registry)
            build, handle, spec = written.build, written.handle, written.spec
            manifest = build.select(handle, written.build_input, spec, written.sharding)
            self.leave_run()
            outcome = build.publish(handle, manifest, verify=verify)
            report = published_report(outcome, manifest)
            self.leave_event(context, report)
            if spec.retention is not None:
                report["cleanup"] = cleanup_numbers(build.clean_up(spec.dataset, spec.retention))
        return report
