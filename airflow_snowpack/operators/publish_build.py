"""Gives readers a build whose winners are selected.

    publish = PublishBuildOperator(task_id="publish", build=select.output)

The manifest goes first, then the pointer, under the dataset's lock. A build that is older than what readers have seen goes into
history: the task succeeds, and says so. A try after one that had published finds that out, and publishes nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.links import show_build
from airflow_snowpack.operators.build_handover import dataset_of, named_run
from airflow_snowpack.operators.build_report import published_report
from airflow_snowpack.operators.publishing import PublishesBuild

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.builds.model import Manifest
    from airflow_snowpack.builds.registry.model import PublishOutcome
    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.builds.storage import Storage


class PublishBuildOperator(PublishesBuild):
    """Publishes one run.

    :param build: what the :class:`~airflow_snowpack.operators.SelectWinnersOperator` returned: ``build=select.output``.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``storage_conn_id``.

    Returns the publication and the build's numbers; ``moved`` says whether readers are given it, ``reason`` why they are not.
    """

    template_fields: Sequence[str] = ("build", "store_conn_id", "storage_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"build": "json"}

    def __init__(self, *, build: Mapping[str, Any] | str | Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.build = build
        self.dataset = dataset_of(build)
        self.declare_outlet(self.dataset)

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish."""
        from airflow_snowpack.builds.write.selection import kept_selection
        from airflow_snowpack.operators.base import owner_of

        with self.registry() as registry:
            dataset, run_id = named_run(self.build)
            show_build(self, context, dataset, run_id)
            storage = self.storage_at(registry.dataset(dataset).url)
            manifest = kept_selection(storage, dataset, run_id)
            outcome = self._publish(registry, storage, manifest, owner_of(context))
        report = published_report(outcome, manifest)
        self.leave_event(context, report)
        return report

    def _publish(self, registry: BuildRegistry, storage: Storage, manifest: Manifest, owner: str) -> PublishOutcome:
        from airflow_snowpack.builds.publish import outcome_of, publish

        published = outcome_of(registry, manifest.dataset, manifest.run_id)
        if published is not None:
            self.log.info("The run %s of %s is published already", manifest.run_id, manifest.dataset)
            return published
        handle = registry.resume(manifest.dataset, manifest.run_id, holder=owner)
        return publish(registry, storage, handle, manifest, by=owner)
