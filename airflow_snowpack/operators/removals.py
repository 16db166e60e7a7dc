"""Plan what to delete, wait for a person's decision, and delete exactly what was approved."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowSkipException, SkipMixin

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.operators.arguments import read_number, read_object, read_text
from airflow_snowpack.operators.base import owner_of
from airflow_snowpack.operators.jobs import job_report
from airflow_snowpack.operators.maintain import MaintainTableOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Asset, AssetAlias, Context
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.jobs import Job
    from airflow_snowpack.maintenance.removals.model import Removal
    from airflow_snowpack.maintenance.submit import MaintenanceRequest

SAMPLE_SIZE = 20
APPROVE = "Approve"


class NoDecision(SnowpackError, kind=Kind.INVALID):
    """The decision on a removal cannot be read."""

    def __init__(self, given: object) -> None:
        super().__init__(
            f"decision = {given!r:.200} is not the response of a human-in-the-loop task. Pass the output of a HITLOperator, "
            "or leave decision out for a removal that was approved on its page, by the API or by the command line."
        )


class StaleDecision(SnowpackError, kind=Kind.REFUSED):
    """The decision was made on an earlier plan."""

    def __init__(self, removal: Removal, decided_at: datetime) -> None:
        super().__init__(
            f"The decision is from {decided_at:%Y-%m-%d %H:%M:%S %Z}, and the removal {removal.removal_id} was planned later, at "
            f"{removal.planned_at:%Y-%m-%d %H:%M:%S %Z}. Clear the task that waits for the decision, so that a person decides on "
            "this list."
        )


class PlanRemovalOperator(MaintainTableOperator, SkipMixin):
    """Lists the orphan files or old snapshots of a table for a person to decide on; deletes nothing.

        plan = PlanRemovalOperator(task_id="plan", table="demo.flights")
        approve = HITLOperator(task_id="approve", subject="Delete the listed files?", options=["Approve", "Reject"])
        delete = RunRemovalOperator(task_id="delete", removal_id=plan.output["removal_id"], decision=approve.output)
        plan >> approve >> delete

    If there is nothing to remove, the tasks right after it are skipped. A list within a limit is deleted at once, and they are
    skipped, too.

    :param table: ``database.table``.
    :param action: ``remove_orphan_files`` or ``expire_snapshots``.
    :param options: of the action, such as ``{"older_than": "7d"}``.
    :param approve_above_files: delete a list of at most this many files without a decision; by default, none.
    :param approve_above_bytes: wait for a decision on a larger list, however few its files are.

    The other arguments are those of :class:`MaintainTableOperator`.

    Returns a dictionary: ``removal_id`` (``None`` if there is nothing to remove), ``state``, ``kind``, ``table``, ``items``,
    ``bytes``, a ``summary`` in words, the first 20 items as ``sample``, ``job_id``.
    """

    inherits_from_skipmixin = True
    template_fields: Sequence[str] = ("table", "action_options", *MaintainTableOperator.template_fields[1:])
    template_fields_renderers: ClassVar[dict[str, str]] = {"action_options": "json"}

    def __init__(
        self,
        *,
        table: str,
        action: str = "remove_orphan_files",
        options: Mapping[str, Any] | str | None = None,
        approve_above_files: int | str | None = 0,
        approve_above_bytes: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, actions=[action], **kwargs)
        self.action = action
        self.action_options = options
        self.approve_above_files = approve_above_files
        self.approve_above_bytes = approve_above_bytes

    def attempt(self, context: Context) -> dict[str, Any]:
        limits = {
            "approve_above_files": read_number("approve_above_files", self.approve_above_files),
            "approve_above_bytes": read_number("approve_above_bytes", self.approve_above_bytes),
        }
        self.options = {self.action: {**(read_object("options", self.action_options) or {}), **limits}}
        return super().attempt(context)

    def report(self, context: Context, job: Job, before: Mapping[str, int], catalog: Catalog | None = None) -> dict[str, Any]:
        """Return the planned list, and skip the tasks after this one unless it awaits a decision."""
        from airflow_snowpack.maintenance.removals.model import RemovalState

        with self.installation() as hook:
            records = hook.installation.removals
            planned = records.planned_by(job.job_id)
            report: dict[str, Any] = {"removal_id": None, "job_id": job.job_id, "table": job.table.dotted, "summary": "nothing"}
            for removal in planned[-1:]:
                sample = [item.name for item in records.some_items(removal.removal_id, limit=SAMPLE_SIZE)]
                report |= removal_report(removal) | {"sample": sample}
        self.log.info("Planned the removal of %s", report["summary"])
        context["ti"].xcom_push("removal_id", report["removal_id"])  # for plan.output["removal_id"]
        if report.get("state") != RemovalState.AWAITING_APPROVAL:
            self._skip_next(context, report)
        return report

    def _skip_next(self, context: Context, report: dict[str, Any]) -> None:
        """Skip the tasks right after this one; this ends the task."""
        later = [task for task in self.get_direct_relatives(upstream=False) if not getattr(task, "is_teardown", False)]
        if later:
            context["ti"].xcom_push("return_value", report)
            self.skip(ti=context["ti"], tasks=later)


class RunRemovalOperator(MaintainTableOperator):
    """Deletes exactly the list of a removal that a person has approved.

    All guards run again: a file that the table's metadata names now, or that was written again, is left out and named.

    :param removal_id: the removal, as :class:`PlanRemovalOperator` returns it.
    :param decision: the output of a ``HITLOperator`` with the options ``Approve`` and ``Reject``, which is recorded with the name
        of the person. After a rejection, the task is skipped. ``None``: the removal was approved elsewhere.

    The other arguments are those of :class:`MaintainTableOperator`, without those of the request.

    Returns that of :class:`PlanRemovalOperator` with the numbers ``deleted``, ``gone``, ``left_out`` and ``quarantined``.
    """

    template_fields: Sequence[str] = (
        "removal_id", "decision", "priority", "store_conn_id", "catalog_conn_id", "spark_conn_id", "execution",
    )  # fmt: skip
    template_fields_renderers: ClassVar[dict[str, str]] = {"decision": "json"}

    def __init__(self, *, removal_id: str, decision: Mapping[str, Any] | str | None = None, **kwargs: Any) -> None:
        super().__init__(table="", **kwargs)
        self.removal_id = removal_id
        self.decision = decision

    def declare_events(self) -> Asset | AssetAlias | None:
        """Emit no event: the rows of the table do not change, and its name is not known when the DAG is parsed."""
        return None

    def attempt(self, context: Context) -> dict[str, Any]:
        """Record the decision and request the deletion; a repeated task returns a removal that is already deleted."""
        with self.installation() as hook:
            removal = self._decided(context, hook)
            if removal.is_done and self._is_own(context, hook, removal):
                return removal_report(removal)
        return super().attempt(context)

    def report(self, context: Context, job: Job, before: Mapping[str, int], catalog: Catalog | None = None) -> dict[str, Any]:
        with self.installation() as hook:
            return job_report(job) | removal_report(hook.installation.removals.get(self.removal_id))

    def _request(self, hook: SnowpackHook, catalog_id: str) -> MaintenanceRequest:
        from airflow_snowpack.iceberg.errors import WrongCatalog
        from airflow_snowpack.maintenance.removals.request import request_of

        removal = hook.installation.removals.get(self.removal_id)
        if removal.table.catalog_id != catalog_id:
            raise WrongCatalog(removal.table.dotted, removal.table.catalog, removal.table.catalog_id, catalog_id)
        return request_of(removal, priority=read_number("priority", self.priority) or 0)

    def _decided(self, context: Context, hook: SnowpackHook) -> Removal:
        from airflow_snowpack.maintenance.removals.model import RemovalState
        from airflow_snowpack.store import Actor

        records, response = hook.installation.removals, self._response()
        removal = records.get(self.removal_id)
        if response is None:
            return removal
        options, user, comment, decided_at = response
        actor = Actor(user or f"no response to {owner_of(context)}", "task")
        if list(options) != [APPROVE]:
            if removal.state is not RemovalState.REJECTED:
                records.reject(self.removal_id, actor=actor, comment=comment)
            raise AirflowSkipException(f"The removal {self.removal_id} was rejected by {actor.name}.")
        if removal.state is RemovalState.AWAITING_APPROVAL:
            if decided_at < removal.planned_at:
                raise StaleDecision(removal, decided_at)
            return records.approve(self.removal_id, actor=actor, comment=comment)
        return removal

    def _response(self) -> tuple[Sequence[str], str | None, str | None, datetime] | None:
        """Return the chosen options, the user, the comment and the time of the decision."""
        from airflow.sdk import timezone

        if self.decision is None or (isinstance(self.decision, str) and read_text(self.decision) is None):
            return None
        given = self.decision
        if not isinstance(given, dict) or not isinstance(options := given.get("chosen_options"), list):
            raise NoDecision(given)
        decided_at = given.get("responded_at")
        if isinstance(decided_at, str):
            decided_at = timezone.parse(decided_at)
        if not isinstance(decided_at, datetime):
            raise NoDecision(given)
        user, form = given.get("responded_by_user") or {}, given.get("params_input") or {}
        comment = form.get("comment")
        return options, user.get("name") or user.get("id"), None if comment is None else str(comment), decided_at

    def _is_own(self, context: Context, hook: SnowpackHook, removal: Removal) -> bool:
        job = hook.jobs().find(removal.job_id or "")
        return job is not None and job.owner == owner_of(context)


def removal_report(removal: Removal) -> dict[str, Any]:
    """Return a removal as JSON values, for XCom."""
    return {
        "removal_id": removal.removal_id,
        "state": removal.state.value,
        "kind": removal.kind.value,
        "table": removal.table.dotted,
        "items": removal.item_count,
        "bytes": removal.bytes,
        "summary": removal.summary,
        "deleted": removal.deleted_count,
        "gone": removal.gone_count,
        "left_out": removal.left_out_count,
        "quarantined": removal.quarantined_count,
    }
