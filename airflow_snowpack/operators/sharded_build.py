"""Builds a sharded snapshot, gives it to readers, and cleans up: all steps in one task. What most DAGs need.

    ShardedBuildOperator(
        task_id="build",
        dataset="features_by_user",
        sql="SELECT * FROM web.features WHERE day < DATE '{{ data_interval_end | ds }}'",
        key="user_id",
        num_shards=64,
        shard_format="sqlite",
    )

Each try builds a run of its own, as of the end of the data interval. Readers see the build before or this one, whole, wherever a
kill falls; and a run over days that have gone by never takes them back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.arguments import read_number, read_period
from airflow_snowpack.operators.build_arguments import BUILD_FIELDS
from airflow_snowpack.operators.build_report import cleanup_numbers, published_report
from airflow_snowpack.operators.building import BuildsShards

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_snowpack.builds.model import Retention


class ShardedBuildOperator(BuildsShards):
    """Builds and publishes one dataset.

    The arguments are those of :class:`TakesBuildArguments`, and:

    :param keep_runs: published runs kept by the cleanup afterwards, the newest first; ``None`` for no cleanup.
    :param stale_attempt_age: for how long nobody must have held a run for it to be taken for dead by the cleanup.

    Returns the publication and the build's numbers; ``moved`` says whether readers are given it, ``reason`` why they are not.
    When they are, it leaves an event on the asset ``snowpack://builds/dataset``.
    """

    template_fields: Sequence[str] = (*BUILD_FIELDS, "keep_runs", "stale_attempt_age")

    def __init__(
        self,
        *,
        keep_runs: int | str | None = 7,
        stale_attempt_age: timedelta | str = timedelta(days=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.keep_runs = keep_runs
        self.stale_attempt_age = stale_attempt_age
        self.declare_outlet(self.dataset)

    def retention(self) -> Retention | None:
        """What the cleanup keeps."""
        from airflow_snowpack.builds.model import Retention

        keep_runs = read_number("keep_runs", self.keep_runs)
        return None if keep_runs is None else Retention(keep_runs, read_period("stale_attempt_age", self.stale_attempt_age))

    def execute(self, context: Context) -> dict[str, Any]:
        """Build, publish, clean up."""
        with self.registry() as registry:
            written = self.write_run(context, registry)
            build, handle, spec = written.build, written.handle, written.spec
            manifest = build.select(handle, written.build_input, spec, written.sharding)
            self.leave_run()
            outcome = build.publish(handle, manifest)
            report = published_report(outcome, manifest)
            self.leave_event(context, report)
            if spec.retention is not None:
                report["cleanup"] = cleanup_numbers(build.clean_up(spec.dataset, spec.retention))
        return report
