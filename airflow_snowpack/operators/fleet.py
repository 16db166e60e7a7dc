"""Maintain all tables of a catalog within a budget, in one task or in several at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.arguments import UnreadableArgument, read_number, read_object, read_text
from airflow_snowpack.operators.base import ReportsLineage, UsesCatalog, owner_of, worker_of
from airflow_snowpack.operators.workers import WorksForQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from airflow.sdk import Context

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.maintenance.fleet import Budget, Pass
    from airflow_snowpack.maintenance.fleet.fleet import Fleet

    Limits = Mapping[str, Any] | str | None


class UsesFleet(ReportsLineage, UsesCatalog):
    """Base of the operators of passes."""

    _seen_pass: str | None = None

    def job_ids(self) -> Sequence[str]:
        """Return the jobs of the pass, in its order."""
        from airflow_snowpack.hooks.store import SnowpackHook

        if self._seen_pass is None:
            return ()
        with SnowpackHook(self.store_conn_id) as hook:
            entries = hook.installation.fleet_passes.entries(self._seen_pass)
        return [entry.job_id for entry in entries if entry.job_id is not None]

    def fleet(self, context: Context, hook: SnowpackHook) -> AbstractContextManager[Fleet]:
        """Open the fleet with the policies of the DAG's bundle."""
        from airflow_snowpack.hooks.dag_files import bundle_folder
        from airflow_snowpack.hooks.fleet import open_fleet

        dags = self.dags_of_tables(context, hook)
        return open_fleet(hook, self.catalog_hook(), root=bundle_folder(context), dags_of_tables=dags)

    def start(self, context: Context, fleet: Fleet, budget: Limits, workers: int | str) -> Pass:
        """Plan or resume the pass of this task, and log what it chose."""
        limits, number = _read_budget(budget), read_number("workers", workers)
        if number is None or number < 1:
            raise UnreadableArgument("workers", workers, "the most tasks that maintain tables at a time, 1 or more")

        def keep(pass_id: str) -> None:
            context["ti"].xcom_push(key="pass_id", value=pass_id)

        planned = fleet.start(owner_of(context), limits, workers=number, holder=worker_of(context), begun=keep)
        self._seen_pass, counts = planned.pass_id, planned.counts
        self.log.info(
            "Pass %s: %d tables listed, %d unchanged, %d read, %d healthy, %d chosen",
            planned.pass_id,
            *(counts.get(name, 0) for name in ("listed", "unchanged", "read", "healthy", "chosen")),
        )
        return planned

    def report(self, fleet: Fleet, pass_id: str) -> dict[str, Any]:
        """End the pass, and log and return its report, with the digest of the last 24 hours."""
        from airflow_snowpack.inventory import Inventory, TableScores
        from airflow_snowpack.maintenance.digest import read_digest

        self._seen_pass = pass_id
        report, store = fleet.report(fleet.passes.get(pass_id)), fleet.passes.store
        inventory = Inventory(store, fleet.catalog, fleet.connect, lambda: fleet.catalog_id)
        digest = read_digest(fleet.jobs, TableScores(store, inventory))
        for line in (*report.lines(), *digest.lines):
            self.log.info("%s", line)
        return {**report.to_json(), "digest": digest.text}


class PlanFleetOperator(UsesFleet):
    """Plans a pass over all tables of the catalog and queues a job for each table that the budget allows.

        plan = PlanFleetOperator(task_id="plan", budget={"gb_hours": 200, "time": "4h"}, workers=4)
        maintain = MaintainFleetOperator.partial(task_id="maintain").expand(pass_id=plan.output)
        pass_id = "{{ ti.xcom_pull(task_ids='plan', key='pass_id') }}"
        maintain >> ReportFleetOperator(task_id="report", pass_id=pass_id, trigger_rule="all_done")

    It reads only metadata, and starts no Spark session. A retry resumes the pass of the try before with its budget.

    :param budget: the limits of the pass, as a dictionary or a JSON object: ``gb_hours``, ``bytes`` (such as ``500 GiB``),
        ``tables`` and ``time`` (such as ``4h``). What is left out has no limit. Running jobs are stopped at ``time``, and when no
        ``gb_hours`` are left for them.
    :param workers: at most how many tasks maintain tables at a time; each has at least two minutes of estimated work.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.

    Returns the id of the pass once for each worker that has something to do, to expand :class:`MaintainFleetOperator` over. If no
    table needs maintenance, the list is empty and no such task starts. The XCom ``pass_id`` is the id of the pass.
    """

    template_fields: Sequence[str] = ("budget", "workers", "store_conn_id", "catalog_conn_id")
    ui_color = "#dff3fb"

    def __init__(self, *, budget: Limits = None, workers: int | str = 4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.budget = budget
        self.workers = workers

    def execute(self, context: Context) -> list[str]:
        with self.installation() as hook, self.fleet(context, hook) as fleet:
            planned = self.start(context, fleet, self.budget, self.workers)
            return [planned.pass_id] * fleet.workers_needed(planned)


class MaintainFleetOperator(WorksForQueue, UsesFleet):
    """Maintains the tables of a pass with one Spark session, one after the other; without ``pass_id``, a whole pass in one task.

        MaintainFleetOperator(task_id="maintain_fleet", budget={"gb_hours": 200, "time": "4h"})

    Several tasks share a pass that :class:`PlanFleetOperator` has planned. A table whose maintenance fails does not fail the
    task: the report names it. A retry continues with the table that the try before had claimed.

    :param pass_id: the pass; ``None``: plan one, maintain its tables, and report.
    :param budget: of a pass in one task, as for :class:`PlanFleetOperator`.
    :param store_conn_id, catalog_conn_id, spark_conn_id: Airflow connections; ``None`` for the installation's.

    Returns how many jobs ended in which status; for a whole pass, its report. No Spark session starts if no table needs one.
    """

    template_fields: Sequence[str] = ("pass_id", "budget", "store_conn_id", "catalog_conn_id", "spark_conn_id")
    ui_color = "#dff3fb"

    def __init__(self, *, pass_id: str | None = None, budget: Limits = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pass_id = pass_id
        self.budget = budget
        self._names_a_pass = pass_id is not None

    def execute(self, context: Context) -> dict[str, Any]:
        with self.installation() as hook, self.fleet(context, hook) as fleet:
            if self._names_a_pass:
                return self._drain(context, hook, fleet, fleet.passes.get(_read_pass(self.pass_id)))
            planned = self.start(context, fleet, self.budget, 1)
            if fleet.workers_needed(planned):
                self._drain(context, hook, fleet, planned)
            return self.report(fleet, planned.pass_id)

    def _drain(self, context: Context, hook: SnowpackHook, fleet: Fleet, planned: Pass) -> dict[str, Any]:
        drain = fleet.drain(planned, worker_of(context))
        worker = self.queue_worker(context, hook, claim_next=drain.claim_next)
        return {status.value: number for status, number in drain.run(worker).items()}


class ReportFleetOperator(UsesFleet):
    """Ends a pass and reports what it did, what failed and why, and what waits and why.

    Jobs that no worker claimed are withdrawn, and their tables come first in the next pass. Give the task
    ``trigger_rule="all_done"``: it then also runs if no table needed maintenance, or if a worker or the planning failed. If the
    planning failed, so does this task, once it has ended the pass.

    :param pass_id: the pass.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.

    Returns the report, with texts for a notifier: ``text`` about the pass, ``digest`` about all jobs of the last 24 hours.
    """

    template_fields: Sequence[str] = ("pass_id", "store_conn_id", "catalog_conn_id")
    ui_color = "#dff3fb"

    def __init__(self, *, pass_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pass_id = pass_id

    def execute(self, context: Context) -> dict[str, Any]:
        with self.installation() as hook, self.fleet(context, hook) as fleet:
            report = self.report(fleet, pass_id := _read_pass(self.pass_id))
            fleet.refuse_if_not_planned(pass_id)
            return report


def _read_pass(pass_id: str | None) -> str:
    given = read_text(pass_id)
    if given is None:
        raise UnreadableArgument("pass_id", pass_id, "the id of a pass; the task that plans it has returned none")
    return given


def _read_budget(budget: Limits) -> Budget:
    from airflow_snowpack.maintenance.fleet import Budget

    return Budget.parse(read_object("budget", budget))
