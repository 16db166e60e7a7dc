"""Rewrite manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.humanize import number, plural
from airflow_snowpack.iceberg.health.bounds import manifest_target
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionEffect, PlanningContext
from airflow_snowpack.maintenance.options import option
from airflow_snowpack.maintenance.plan import skip
from airflow_snowpack.maintenance.planning.commits import manifests_left
from airflow_snowpack.maintenance.planning.finding import Estimate, Facts, Finding, Rate, Threshold
from airflow_snowpack.maintenance.procedures import ProcedureCall, procedure_call
from airflow_snowpack.maintenance.readers import columns, flag, whole_number
from airflow_snowpack.maintenance.rewrites import Rewrite, RewriteWording, check_spec

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.replay.state import SimulatedTable

SHAPE = RewriteWording(
    "Rewrote",
    "rewritten",
    "manifest",
    "rewritten_manifests_count",
    "added_manifests_count",
    {"rewritten_manifests_count": "manifests-replaced", "added_manifests_count": "manifests-created"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifests(Rewrite):
    """Combine the entries of each partition in few manifests.

    :param use_caching: cache the entries in Spark; faster for many manifests, but needs memory. Off by default.
    :param spec_id: the partition spec of the manifests; by default, the current one.
    :param sort_by: partition fields that order the entries; by default, those of the spec.
    """

    action: ClassVar[str] = Action.REWRITE_MANIFESTS
    thresholds: ClassVar[Mapping[str, Threshold]] = {"small_manifests": Threshold(50, "Manifests that could be combined.")}
    rate: ClassVar[Rate] = Rate(1.0, per_file=0.02)
    enabled: ClassVar[bool] = True
    deletes_files: ClassVar[bool] = False
    shape: ClassVar[RewriteWording] = SHAPE

    use_caching: bool | None = option(None, flag)
    spec_id: int | None = option(None, whole_number(at_least=0, at_most=2**31 - 1), of_table=True)
    sort_by: tuple[str, ...] = option((), columns, since="1.12")

    def check_table(self, table: Table, name: str) -> None:
        check_spec(self, "spec_id", table, name)

    def call(self, table: TableName, *, strict: bool = False) -> ProcedureCall:
        arguments = {"use_caching": self.use_caching, "spec_id": self.spec_id, "sort_by": self.sort_by or None}
        return procedure_call(table, self.action, arguments)

    def find(self, facts: Facts) -> Finding:
        """Return what the action would do after the other rewrites of the same plan."""
        health = facts.health
        small, threshold = health.small_manifests, facts.thresholds["small_manifests"]
        target = manifest_target(health.properties)
        counts = (
            manifests_left(facts, Action.REWRITE_DATA_FILES),
            manifests_left(facts, Action.REWRITE_POSITION_DELETE_FILES),
        )
        kinds, live = zip(*counts, strict=True)
        manifests = health.data_manifests + health.delete_manifests
        metrics, is_after = (
            {"manifests": manifests, "small_manifests": small},
            any(each.commits for each in facts.before.values()),
        )
        if small < 2 or max(live) < 2:
            why = "; the rewrite of files replaces them" if is_after else "; those of older partition specs stay"
            rest = why if small > 1 and sum(live) < manifests else ""
            return Finding(f"{plural(manifests, 'manifest')}, {number(small)} of them small{rest}", metrics)
        work = _combined(((each, health.manifests_bytes * each // sum(kinds)) for each in kinds), target)
        left = min(small, sum(live))
        which = "after the rewrite of files" if is_after else "of the current partition spec"
        rest = f", {number(left)} {which}" if left < small else ""
        return Finding(
            f"{number(small)} of {plural(manifests, 'manifest')} small{rest}; threshold {number(threshold)}",
            metrics,
            work,
            left >= threshold,
            commits=1,
        )

    def simulate(self, state: SimulatedTable, now: datetime, partitions: Collection[PartitionKey] | None) -> Estimate:
        """Combine the manifests of the current partition spec into as few as their target size allows."""
        spec_id = state.table.spec().spec_id
        target = manifest_target(state.table.properties)
        done = Estimate()
        for is_data in (True, False):
            mine = {path: each for path, each in state.manifests.items() if each.is_data is is_data and each.spec_id == spec_id}
            total = sum(each.bytes for each in mine.values())
            work = _combined([(len(mine), total)], target)
            if work.files_removed:
                files = [key for path in mine for key in state.manifests.pop(path).files]
                state.commit(now)
                for first in range(work.files_added):
                    keys, size = set(files[first :: work.files_added]), total // work.files_added
                    state.write_manifest(keys, spec_id=spec_id, is_data=is_data, size=size)
                done += replace(work, bytes_rewritten=total)
        return done

    def plan(self, planning: PlanningContext) -> ActionEffect:
        from pyiceberg.manifest import ManifestContent

        reader, table = planning.reader, planning.reader.table
        spec_id = table.spec().spec_id if self.spec_id is None else self.spec_id
        manifests = reader.manifests(table.current_snapshot())
        of_spec = [each for each in manifests if each.partition_spec_id == spec_id]
        sizes = [[each.manifest_length for each in of_spec if each.content == content] for content in ManifestContent]
        work = _combined(((len(each), sum(each)) for each in sizes), manifest_target(table.properties))
        taken, added = work.files_removed, work.files_added
        metrics = {"rewritten_manifests_count": taken, "added_manifests_count": added}
        message = f"Would rewrite {plural(taken, 'manifest')} into {added:,}" if taken else "Would rewrite no manifests"
        return ActionEffect(ActionOutcome.SUCCEEDED, message, metrics)

    def nothing_to_do(self, planning: PlanningContext) -> ActionEffect | None:
        reader = planning.reader
        if self.sort_by or (self.spec_id is not None and self.spec_id not in reader.table.specs()):
            return None  # Spark reports an unknown spec
        metrics = self.plan(planning).metrics
        if metrics["rewritten_manifests_count"]:
            return None
        count = len(reader.manifests(reader.table.current_snapshot()))
        return skip(f"{plural(count, 'manifest')}, and none to combine", {**metrics, "considered_manifests_count": count})


def _combined(kinds: Iterable[tuple[int, int]], target: int) -> Estimate:
    """Return the estimate for data and for delete manifests, given as the number and bytes of each; a single good one stays."""
    outputs = [(manifests, -(-size // target)) for manifests, size in kinds]
    rewritten = [each for each in outputs if each[0] and each != (1, 1)]
    return Estimate(sum(manifests for manifests, _ in rewritten), sum(added for _, added in rewritten))
