"""What the operators of builds share: registry and storage, the event of a publication, and the reports that go to XCom."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_snowpack.assets import declare_outlet, publication_outlet, published_builds, record_publication, withhold_event
from airflow_snowpack.links import BuildRunLink
from airflow_snowpack.operators.base import ReportsLineage, UsesStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow.sdk import Asset, AssetAlias, Context

    from airflow_snowpack.builds.model import CleanupAction, Manifest
    from airflow_snowpack.builds.registry.model import BuildRun, PublishOutcome
    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.builds.storage import Storage

EVENT = ("run_id", "publication", "rows", "as_of")
MAX_PROBLEMS = 20
MAX_PATHS = 50


class UsesDataset(UsesStore):
    """Base of the operators that work on a dataset.

    :param storage_conn_id: the Airflow connection of the object storage; ``None`` for the installation's. See
        :class:`~airflow_snowpack.hooks.BuildStorageHook`.
    """

    ui_color = "#e4f3e1"
    operator_extra_links = (BuildRunLink(),)

    def __init__(self, *, storage_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.storage_conn_id = storage_conn_id

    @contextmanager
    def registry(self) -> Iterator[BuildRegistry]:
        """Open the registry."""
        with self.installation() as hook:
            yield hook.builds()

    def storage_at(self, url: str) -> Storage:
        """Return the storage of a dataset's folder. The registry knows the folder; the connection gives access to it."""
        from airflow_snowpack.hooks.build_storage import BuildStorageHook

        return BuildStorageHook(self.storage_conn_id).storage(url)


class PublishesBuild(ReportsLineage, UsesDataset):
    """Base of the operators that may change the current build of a dataset.

    An event on the dataset's asset means that readers get another build. A build that is older than the current one leaves none,
    and a DAG that is scheduled on the dataset that it publishes does not start itself.
    """

    _outlet: Asset | AssetAlias | None = None

    def declare_outlet(self, dataset: object) -> None:
        """Declare the asset of the dataset.

        :param dataset: its name in the DAG file; a template, or ``None``, for a name that is known only when the task runs.
        """
        self._outlet = declare_outlet(self, publication_outlet(dataset), published_builds())

    def leave_event(self, context: Context, report: Mapping[str, Any]) -> None:
        """Emit the event if the current build has changed.

        :param report: what the task returns.
        """
        if self._outlet is None:
            return
        if report["moved"]:
            record_publication(context, self._outlet, report["dataset"], {name: report[name] for name in EVENT})
        else:
            withhold_event(context, self._outlet)


def outcome_report(outcome: PublishOutcome) -> dict[str, Any]:
    """Return how a publication or a rollback ended, as JSON values."""
    return {
        "dataset": outcome.dataset,
        "run_id": outcome.run_id,
        "manifest": outcome.manifest,
        "moved": outcome.moved,
        "publication": outcome.publication,
        "reason": outcome.reason,
        "recorded": outcome.recorded,
    }


def published_report(outcome: PublishOutcome, manifest: Manifest) -> dict[str, Any]:
    """Return the outcome of a publication with the numbers of its build."""
    return outcome_report(outcome) | manifest_numbers(manifest)


def run_report(run: BuildRun, outcome: PublishOutcome) -> dict[str, Any]:
    """Return the outcome of a rollback with the recorded numbers of its run."""
    numbers = {"as_of": run.as_of.isoformat(), "shards": run.num_shards, "rows": run.rows, "bytes": run.bytes}
    return outcome_report(outcome) | numbers


def manifest_numbers(manifest: Manifest) -> dict[str, Any]:
    """Return the size of a build; ``skew`` is its largest shard relative to the mean, 1.0 when all shards are equal."""
    shards = len(manifest.shards)
    largest = max((shard.rows for shard in manifest.shards), default=0)
    return {
        "as_of": manifest.as_of.isoformat(),
        "shards": shards,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "skew": round(largest * shards / manifest.rows, 2) if manifest.rows else None,
    }


def cleanup_report(actions: Sequence[CleanupAction], *, dry_run: bool) -> dict[str, Any]:
    """Return what was deleted (in a dry run: would be) in each phase, the first paths, and the first problems."""
    problems = [f"{action.path}: {action.error}" for action in actions if action.error]
    return {
        "dry_run": dry_run,
        **cleanup_numbers(actions),
        "paths": [action.path for action in actions[:MAX_PATHS]],
        "problems": problems[:MAX_PROBLEMS],
    }


def cleanup_numbers(actions: Sequence[CleanupAction]) -> dict[str, Any]:
    """Return the numbers of a cleanup."""
    return {
        "actions": dict(Counter(action.phase.value for action in actions)),
        "objects": sum(action.objects or 0 for action in actions),
        "bytes": sum(action.bytes or 0 for action in actions),
        "failed": sum(1 for action in actions if action.error),
    }
