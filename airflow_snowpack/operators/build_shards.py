"""Writes the shards of a build, and leaves what comes of them to the tasks after it.

    write = BuildShardsOperator(task_id="write", dataset="features_by_user", table="web.features", key="user_id", num_shards=64)
    select = SelectWinnersOperator(task_id="select", build=write.output)
    publish = PublishBuildOperator(task_id="publish", build=select.output)

Each try begins a run of its own; what a try before has left behind is failed, and deleted by a later cleanup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.build_arguments import BUILD_FIELDS
from airflow_snowpack.operators.build_handover import Handover
from airflow_snowpack.operators.building import BuildsShards

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class BuildShardsOperator(BuildsShards):
    """Begins a run and writes all of its shards. The arguments are those of :class:`TakesBuildArguments`.

    Returns the run, for the :class:`~airflow_snowpack.operators.SelectWinnersOperator`.
    """

    template_fields: Sequence[str] = BUILD_FIELDS

    def execute(self, context: Context) -> dict[str, Any]:
        """Write."""
        with self.registry() as registry:
            written = self.write_run(context, registry)
        handle = written.handle
        handed = Handover(handle.dataset, handle.run_id, written.sharding, written.spec.shard_format, written.build_input)
        return handed.to_json()
