"""Chooses the one attempt at each shard that counts, and keeps the choice until it is published.

    select = SelectWinnersOperator(task_id="select", build=write.output)

It takes the run over from the task that wrote it: cleanup counts from here for how long nobody has held it, and an orphan of that
task writes no more. It reads the durable records that each successful attempt has left, as the writer hears of one attempt at a
shard only. A check of one's own may stand between this and the publication: what was selected is what is published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.links import show_build
from airflow_snowpack.operators.build_handover import Handover, dataset_of
from airflow_snowpack.operators.build_report import manifest_numbers
from airflow_snowpack.operators.dataset import UsesDataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context


class SelectWinnersOperator(UsesDataset):
    """Selects the winners of a run.

    :param build: what the :class:`~airflow_snowpack.operators.BuildShardsOperator` returned: ``build=write.output``.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``storage_conn_id``.

    Returns the run with its numbers: ``rows``, ``bytes``, ``shards``, ``skew``, ``attempts`` that succeeded and the ``losers``
    among them. A shard without a successful attempt fails the task.
    """

    template_fields: Sequence[str] = ("build", "store_conn_id", "storage_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"build": "json"}

    def __init__(self, *, build: Mapping[str, Any] | str | Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.build = build
        self.dataset = dataset_of(build)

    def execute(self, context: Context) -> dict[str, Any]:
        """Select."""
        from airflow_snowpack.builds.registry.model import RunStatus
        from airflow_snowpack.builds.write.selection import keep_selection, read_attempts, select
        from airflow_snowpack.operators.base import owner_of

        with self.registry() as registry:
            handed = Handover.read(self.build)
            show_build(self, context, handed.dataset, handed.run_id)
            run = registry.run(handed.dataset, handed.run_id)
            if run.status is RunStatus.RUNNING:  # that of a cleared task may be published
                registry.resume(handed.dataset, handed.run_id, holder=owner_of(context))
            storage = self.storage_at(registry.dataset(handed.dataset).url)
            attempts = read_attempts(storage, handed.run_id)
            now = registry.store.clock()
            manifest = select(run, attempts, handed.build_input, handed.sharding, handed.shard_format, now)
            path = keep_selection(storage, manifest)
        losers = len(attempts) - len(manifest.shards)
        self.log.info("%s of %s: %d attempts, %d losers", handed.run_id, handed.dataset, len(attempts), losers)
        return {
            "dataset": handed.dataset,
            "run_id": handed.run_id,
            "selection": path,
            **manifest_numbers(manifest),
            "attempts": len(attempts),
            "losers": losers,
        }
