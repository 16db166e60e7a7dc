"""The steps of a build as separate tasks, rollback, and cleanup."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

from airflow_snowpack.links import show_build
from airflow_snowpack.operators.arguments import UnreadableArgument, read_flag, read_number, read_object, read_period, read_text
from airflow_snowpack.operators.base import owner_of
from airflow_snowpack.operators.build_base import (
    PublishesBuild,
    UsesDataset,
    cleanup_report,
    manifest_numbers,
    published_report,
    run_report,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.builds.build_spec import BuildInput
    from airflow_snowpack.builds.model import Retention, ShardFormat, Sharding
    from airflow_snowpack.builds.registry.runs import BuildRegistry

EXPECTED = "the output of the task before: build=write.output"


@dataclass(frozen=True, slots=True)
class Handover:
    """What one task of a build passes to the next by XCom: the run, and what its manifest needs besides the winners."""

    dataset: str
    run_id: str
    sharding: Sharding
    shard_format: ShardFormat
    build_input: BuildInput

    def to_json(self) -> dict[str, Any]:
        from airflow_snowpack.builds.json_format import sharding_json

        return {
            "dataset": self.dataset,
            "run_id": self.run_id,
            "sharding": sharding_json(self.sharding),
            "shard_format": self.shard_format.value,
            "input": self.build_input.as_dict(),
        }

    @classmethod
    def read(cls, value: object) -> Self:
        """Parse the output of the task before, rendered or not; raise :class:`UnreadableArgument` if it is something else."""
        from airflow_snowpack.builds.build_spec import BuildInput
        from airflow_snowpack.builds.json_format import read_sharding
        from airflow_snowpack.builds.model import ShardFormat

        dataset, run_id = named_run(value)
        content = read_object("build", value)
        try:
            return cls(
                dataset,
                run_id,
                read_sharding(content["sharding"]),
                ShardFormat(content["shard_format"]),
                BuildInput.from_dict(content["input"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise UnreadableArgument("build", value, EXPECTED) from problem


def named_run(value: object) -> tuple[str, str]:
    """Return the dataset and the run in a step's XCom; raise :class:`UnreadableArgument` if it has none."""
    content = read_object("build", value)
    dataset, run_id = content.get("dataset"), content.get("run_id")
    if not isinstance(dataset, str) or not isinstance(run_id, str):
        raise UnreadableArgument("build", value, EXPECTED)
    return dataset, run_id


class ContinuesBuild(UsesDataset):
    """Base of the steps of a build; ``build`` is the output of the step before."""

    template_fields: Sequence[str] = ("build", "store_conn_id", "storage_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"build": "json"}

    def __init__(self, *, build: Mapping[str, Any] | str | Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.build = build
        # Known only at run time if ``build`` is not the output of an operator.
        self.dataset = getattr(getattr(build, "operator", None), "dataset", None)


class SelectWinnersOperator(ContinuesBuild):
    """Selects the attempt that counts for each shard, and stores the selection until it is published.

        select = SelectWinnersOperator(task_id="select", build=write.output)

    It takes the run over from the task that wrote it: a leftover process of that task can write no more. It reads the durable
    record of each successful attempt. A check may run between this task and the publication: exactly the selection is published.

    :param build: the output of the :class:`~airflow_snowpack.operators.BuildShardsOperator`: ``build=write.output``.
    :param store_conn_id, storage_conn_id: the Airflow connections of the store and the storage; ``None`` for the installation's.

    Returns the run with its numbers: ``rows``, ``bytes``, ``shards``, ``skew``, the successful ``attempts`` and the ``losers``
    among them. A shard without a successful attempt fails the task.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.builds.registry.model import RunStatus
        from airflow_snowpack.builds.write.selection import keep_selection, read_attempts, select

        with self.registry() as registry:
            handed = Handover.read(self.build)
            show_build(self, context, handed.dataset, handed.run_id)
            run = registry.run(handed.dataset, handed.run_id)
            if run.status is RunStatus.RUNNING:  # the run of a cleared task may be published
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


class PublishBuildOperator(ContinuesBuild, PublishesBuild):
    """Publishes a run whose winners are selected: the manifest first, then the pointer, under the dataset's lock.

        publish = PublishBuildOperator(task_id="publish", build=select.output)

    A run that is older than the current build is recorded in the history, and the task succeeds. A retry after a try that had
    published returns the same publication.

    :param build: the output of the :class:`~airflow_snowpack.operators.SelectWinnersOperator`: ``build=select.output``.
    :param verify: ``checksums`` to read each shard's file and verify it before the build becomes current; ``sizes`` to check in
        one listing that each exists with its size.
    :param store_conn_id, storage_conn_id: the Airflow connections of the store and the storage; ``None`` for the installation's.

    Returns the publication and the build's numbers; ``moved``: whether it is the current build now, and if not, the ``reason``.
    """

    template_fields: Sequence[str] = (*ContinuesBuild.template_fields, "verify")

    def __init__(self, *, verify: str = "sizes", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verify = verify
        self.declare_outlet(self.dataset)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.builds.model import FileCheck
        from airflow_snowpack.builds.publish import publish_selected

        verify = FileCheck.read(self.verify)
        with self.registry() as registry:
            dataset, run_id = named_run(self.build)
            show_build(self, context, dataset, run_id)
            storage = self.storage_at(registry.dataset(dataset).url)
            outcome, manifest = publish_selected(registry, storage, dataset, run_id, holder=owner_of(context), verify=verify)
        report = published_report(outcome, manifest)
        self.leave_event(context, report)
        return report


class RollbackBuildOperator(PublishesBuild):
    """Makes an earlier build the current one again. Only the pointer is written.

        RollbackBuildOperator(task_id="back", dataset="features_by_user", to="-1")

    A retry, or a clear, does not go back further while the build that it chose is the current one.

    :param dataset: the name of the dataset.
    :param to: a run's id, a manifest's path, or how many builds back: ``"-1"`` is the published build with the next older data.
    :param store_conn_id, storage_conn_id: the Airflow connections of the store and the storage; ``None`` for the installation's.

    Returns the publication. A build that was deleted or never existed fails the task without a retry.
    """

    template_fields: Sequence[str] = ("dataset", "to", "store_conn_id", "storage_conn_id")

    def __init__(self, *, dataset: str, to: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.to = to
        self.declare_outlet(dataset)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.builds.publish import rollback

        show_build(self, context, self.dataset)
        with self.registry() as registry:
            storage = self.storage_at(registry.dataset(self.dataset).url)
            outcome = rollback(registry, storage, self.dataset, str(self.to), by=owner_of(context), once=True)
            report = run_report(registry.run(self.dataset, outcome.run_id), outcome)
        show_build(self, context, self.dataset, outcome.run_id)
        self.leave_event(context, report)
        return report


class CleanupBuildsOperator(UsesDataset):
    """Deletes losing attempts, the objects of dead runs, and published runs beyond those that are kept.

        CleanupBuildsOperator(task_id="clean", dataset="features_by_user", keep_runs=7)
        CleanupBuildsOperator(task_id="preview", keep_runs=7, dry_run=True)                 # all datasets; deletes nothing

    A failed deletion does not stop the others: it is reported, and the next cleanup retries it. If all datasets are cleaned up,
    one that another process works on is left to the next cleanup, and one that fails fails the task at the end.

    :param dataset: the name of the dataset; ``None`` for all that were ever built.
    :param keep_runs: how many published runs to keep, the newest first; the current build is always kept.
    :param stale_attempt_age: a run is dead when no process has had its lease for this long: a ``timedelta``, or text such as
        ``1d``.
    :param dry_run: report what would be deleted.
    :param store_conn_id, storage_conn_id: the Airflow connections of the store and the storage; ``None`` for the installation's.

    Returns, for each dataset, the deletions of each phase, their objects and bytes, the first paths, and what failed.
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
            raise  # it would recur for the next dataset
        except SnowpackError as problem:
            self.log.exception("The dataset %s could not be cleaned up", dataset)
            return {"dataset": dataset, "problem": str(problem)}

    def _clean(
        self, context: Context, registry: BuildRegistry, dataset: str, retention: Retention, dry_run: bool
    ) -> dict[str, Any]:
        from airflow_snowpack.builds.cleanup import cleanup

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
