"""Rewrite manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg.health.bounds import manifest_target
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import Effect, Planning
from airflow_snowpack.maintenance.options import option
from airflow_snowpack.maintenance.plan import skip
from airflow_snowpack.maintenance.procedures import Call, procedure_call
from airflow_snowpack.maintenance.readers import columns, flag, whole_number
from airflow_snowpack.maintenance.rewrites import Rewrite, Shape

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from airflow_snowpack.iceberg import MetadataReader
    from airflow_snowpack.iceberg.names import TableName

SHAPE = Shape(
    "Rewrote",
    "rewritten",
    "manifest",
    "rewritten_manifests_count",
    "added_manifests_count",
    {"rewritten_manifests_count": "manifests-replaced", "added_manifests_count": "manifests-created"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifests(Rewrite):
    """Gather the entries of a partition into few manifests.

    :param use_caching: cache the entries in Spark meanwhile; faster for many manifests, needs memory. Iceberg's default is off.
    :param spec_id: manifests of this partition spec; without it, of the current one.
    :param sort_by: partition fields by which the entries are ordered; without it, as the spec has them.
    """

    action: ClassVar[str] = Action.REWRITE_MANIFESTS
    shape: ClassVar[Shape] = SHAPE

    use_caching: bool | None = option(None, flag)
    spec_id: int | None = option(None, whole_number(at_least=0, at_most=2**31 - 1))
    sort_by: tuple[str, ...] = option((), columns)

    def call(self, table: TableName, job_id: str, *, strict: bool = False) -> Call:
        arguments = {"use_caching": self.use_caching, "spec_id": self.spec_id, "sort_by": self.sort_by or None}
        return procedure_call(table, self.action, job_id, arguments)

    def plan(self, planning: Planning) -> Effect:
        return self._plan(planning.reader)

    def nothing_to_do(self, read: Callable[[], MetadataReader], *, now: datetime) -> Effect | None:
        if self.sort_by:
            return None
        reader = read()
        if self.spec_id is not None and self.spec_id not in reader.table.specs():
            return None  # an error of Spark's
        if self._plan(reader).metrics["rewritten_manifests_count"]:
            return None
        number = len(reader.manifests(reader.table.current_snapshot()))
        metrics = {"rewritten_manifests_count": 0, "added_manifests_count": 0, "considered_manifests_count": number}
        return skip(f"{plural(number, 'manifest')}, and none to combine", metrics)

    def _plan(self, reader: MetadataReader) -> Effect:
        from pyiceberg.manifest import ManifestContent

        table = reader.table
        spec_id = table.spec().spec_id if self.spec_id is None else self.spec_id
        manifests = reader.manifests(table.current_snapshot())
        target = manifest_target(table.properties)
        taken = added = 0
        for content in ManifestContent:
            matching = [each for each in manifests if each.content == content and each.partition_spec_id == spec_id]
            outputs = -(-sum(each.manifest_length for each in matching) // target)
            if matching and not (outputs == 1 and len(matching) == 1):
                taken, added = taken + len(matching), added + outputs
        metrics = {"rewritten_manifests_count": taken, "added_manifests_count": added}
        message = f"Would rewrite {plural(taken, 'manifest')} into {added:,}" if taken else "Would rewrite no manifests"
        return Effect(ActionOutcome.SUCCEEDED, message, metrics)
