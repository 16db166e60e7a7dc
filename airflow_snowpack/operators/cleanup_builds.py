"""Deletes what no reader and no run needs any more: losing attempts, what dead runs left, and runs beyond those that are kept.

    CleanupBuildsOperator(task_id="clean", dataset="features_by_user", keep_runs=7)
    CleanupBuildsOperator(task_id="look", keep_runs=7, dry_run=True)                    # all datasets; nothing is deleted

One deletion that fails does not stop the others: it is in the report, and the next cleanup finds it again. Nor does a dataset
that cannot be cleaned up stop those after it: the task fails when it is through with them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.links import show_build
from airflow_snowpack.operators.arguments import UnreadableArgument, read_flag, read_number, read_period, read_text
from airflow_snowpack.operators.build_report import cleanup_report
from airflow_snowpack.operators.dataset import UsesDataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.builds.model import Retention
    from airflow_snowpack.builds.registry.runs import BuildRegistry


class CleanupBuildsOperator(UsesDataset):
    """Cleans up one dataset, or all.

    :param dataset: which one; ``None`` for all that were ever built. One that somebody else is working on is then left for the
        next time, and one that is in trouble fails the task once all others are done.
    :param keep_runs: published runs kept, the newest first; the one that is served always is.
    :param stale_attempt_age: for how long nobody must have held a run for it to be taken for dead: a ``timedelta``, or text such
        as ``1d``.
    :param dry_run: only tell what would be deleted.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``storage_conn_id``.

    Returns, for each dataset, how many deletions each phase made, the objects and bytes, the first paths, and what failed.
    """

    template_fields: Sequence[str] = (
        "dataset",
        "keep_runs",
        "stale_attempt_age",
        "dry_run",
        "store_conn_id",
        "storage_conn_id",
    )

    def __init__(
        self,
        *,
        dataset: str | None = None,
        keep_runs: int | str = 7,
        stale_attempt_age: timedelta | str = timedelta(days=1),
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self._names_a_dataset = dataset is not None
        self.keep_runs = keep_runs
        self.stale_attempt_age = stale_attempt_age
        self.dry_run = dry_run  # type: ignore[assignment, method-assign]  # BaseOperator has a debugging method of this name

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Clean up."""
        from airflow_snowpack.builds.errors import CleanupIncomplete
        from airflow_snowpack.builds.model import Retention

        with self.registry() as registry:
            retention = Retention(
                read_number("keep_runs", self.keep_runs) or 0, read_period("stale_attempt_age", self.stale_attempt_age)
            )
            dry_run = read_flag("dry_run", self.dry_run)
            clean = self._clean if self._names_a_dataset else self._clean_if_possible
            done = [clean(context, registry, dataset, retention, dry_run) for dataset in self._datasets(context, registry)]
            problems = {each["dataset"]: each["problem"] for each in done if "problem" in each}
            if problems:
                raise CleanupIncomplete(problems)
            return done

    def _clean_if_possible(
        self, context: Context, registry: BuildRegistry, dataset: str, retention: Retention, dry_run: bool
    ) -> dict[str, Any]:
        from airflow_snowpack.builds.errors import DatasetBusy
        from airflow_snowpack.errors import SnowpackError
        from airflow_snowpack.store import StoreError

        try:
            return self._clean(context, registry, dataset, retention, dry_run)
        except DatasetBusy as busy:
            self.log.warning("%s", busy)
            return {"dataset": dataset, "busy": str(busy)}
        except StoreError:
            raise  # the next dataset would meet it again
        except SnowpackError as problem:
            self.log.exception("The dataset %s could not be cleaned up", dataset)
            return {"dataset": dataset, "problem": str(problem)}

    def _clean(
        self, context: Context, registry: BuildRegistry, dataset: str, retention: Retention, dry_run: bool
    ) -> dict[str, Any]:
        from airflow_snowpack.builds.cleanup import cleanup
        from airflow_snowpack.operators.base import owner_of

        storage = self.storage_at(registry.dataset(dataset).url)
        actions = cleanup(registry, storage, dataset, retention, dry_run=dry_run, holder=owner_of(context))
        for action in actions:
            self.log.info("%s %s: %s", action.phase, action.path, action.error or action.reason)
        return {"dataset": dataset, **cleanup_report(actions, dry_run=dry_run)}

    def _datasets(self, context: Context, registry: BuildRegistry) -> Iterator[str]:
        if self._names_a_dataset:
            named = read_text(self.dataset)
            if named is None:
                raise UnreadableArgument("dataset", self.dataset, "the name of a dataset, or leave it out for all")
            show_build(self, context, named)
            yield named
            return
        page = registry.datasets()
        yield from (each.dataset for each in page.items)
        while page.next is not None:
            page = registry.datasets(after=page.next)
            yield from (each.dataset for each in page.items)
