"""Shared by the operators of builds: arguments, registry and storage, the event of a publication, and the reports for XCom."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_snowpack.assets import declare_outlet, publication_outlet, published_builds, record_publication, withhold_event
from airflow_snowpack.links import BuildRunLink
from airflow_snowpack.operators.arguments import (
    UnreadableArgument,
    read_moment,
    read_number,
    read_text,
    read_values,
)
from airflow_snowpack.operators.base import ReportsLineage, UsesStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from airflow.sdk import Asset, AssetAlias, Context

    from airflow_snowpack.builds.build_spec import BuildSpec
    from airflow_snowpack.builds.model import CleanupAction, Manifest, Retention, Sharding
    from airflow_snowpack.builds.registry.model import BuildRun, PublishOutcome
    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.builds.storage import Storage

    Engine = Literal["spark", "python"]


EVENT = ("run_id", "publication", "rows", "as_of")
MAX_PROBLEMS = 20
MAX_PATHS = 50
ENGINES: tuple[Engine, ...] = ("spark", "python")

BUILD_FIELDS = (
    "dataset",
    "table",
    "sql",
    "op_kwargs",
    "key",
    "num_shards",
    "max_keys_per_shard",
    "category_column",
    "categories",
    "expression",
    "shard_format",
    "batch_size",
    "rows_per_second",
    "as_of",
    "url",
    "store_conn_id",
    "storage_conn_id",
    "catalog_conn_id",
    "spark_conn_id",
)


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
        with self.installation() as hook:
            yield hook.builds()

    def storage_at(self, url: str) -> Storage:
        """Return the storage of a dataset's folder. The registry knows the folder; the connection gives access to it."""
        from airflow_snowpack.hooks.build_storage import BuildStorageHook

        return BuildStorageHook(self.storage_conn_id).storage(url)


class PublishesBuild(ReportsLineage, UsesDataset):
    """Base of the operators that may change the current build of a dataset.

    An event on the dataset's asset means that readers get another build. A build that is older than the current one emits none,
    and a DAG that is scheduled on the dataset that it publishes does not start itself.
    """

    _outlet: Asset | AssetAlias | None = None

    def declare_outlet(self, dataset: object) -> None:
        """Declare the asset of the dataset.

        :param dataset: its name in the DAG file; a template, or ``None``, if the name is known only when the task runs.
        """
        self._outlet = declare_outlet(self, publication_outlet(dataset), published_builds())

    def leave_event(self, context: Context, report: Mapping[str, Any]) -> None:
        """Emit the event if the current build has changed, by the task's return value."""
        if self._outlet is None:
            return
        if report["moved"]:
            record_publication(context, self._outlet, report["dataset"], {name: report[name] for name in EVENT})
        else:
            withhold_event(context, self._outlet)


def published_report(outcome: PublishOutcome, manifest: Manifest) -> dict[str, Any]:
    """Return the outcome of a publication with the numbers of its build, as JSON values."""
    return asdict(outcome) | manifest_numbers(manifest)


def run_report(run: BuildRun, outcome: PublishOutcome) -> dict[str, Any]:
    """Return the outcome of a rollback with the recorded numbers of its run, as JSON values."""
    return asdict(outcome) | {"as_of": run.as_of.isoformat(), "shards": run.num_shards, "rows": run.rows, "bytes": run.bytes}


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
    return {
        "actions": dict(Counter(action.phase.value for action in actions)),
        "objects": sum(action.objects or 0 for action in actions),
        "bytes": sum(action.bytes or 0 for action in actions),
        "failed": sum(1 for action in actions if action.error),
    }


class TakesBuildArguments(PublishesBuild):
    """Base of the operators that build a dataset.

    :param dataset: the name under which it is published.
    :param key: the column by which rows are looked up: integers, text or bytes, never null.
    :param table: an Iceberg table, ``database.table``; or
    :param sql: a query, with the installation's catalog as the current one; or
    :param python_callable: a function that receives the Spark session first, then what it names of the context and of
        ``op_kwargs``, and returns a DataFrame. With ``engine="python"``: no session; it returns batches, tables or dictionaries.
    :param num_shards: how many shards, by a hash of the key; or
    :param max_keys_per_shard: how many keys at most in each; or
    :param category_column: with ``categories``, a shard for each of exactly these values of a column; or
    :param expression: Spark SQL that returns the shard's id, from 0 to ``num_shards - 1``.
    :param shard_format: ``parquet``, or ``sqlite`` for point look-ups.
    :param batch_size: how many rows a writer collects before it writes them.
    :param rows_per_second: the limit of each writer; ``None`` for none.
    :param engine: ``spark``, or ``python`` for what one machine can process: PyIceberg reads the table, no JVM starts.
    :param shard_retry: how often a shard is retried with ``engine="python"``. For Spark, set ``spark.task.maxFailures``.
    :param as_of: the time that the data describes, which orders builds; ``None`` for the end of the data interval or, in a run
        without one, its ``run_after``.
    :param url: the dataset's folder, the same for all its runs; ``None`` for its name below ``[snowpack] builds_url``.
    :param store_conn_id, storage_conn_id, catalog_conn_id, spark_conn_id: Airflow connections; ``None`` for the installation's.
    """

    template_fields_renderers: ClassVar[dict[str, str]] = {"sql": "sql", "op_kwargs": "json", "categories": "json"}

    def __init__(
        self,
        *,
        dataset: str,
        key: str,
        table: str | None = None,
        sql: str | None = None,
        python_callable: Callable[..., Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        num_shards: int | str | None = None,
        max_keys_per_shard: int | str | None = None,
        category_column: str | None = None,
        categories: Sequence[str | int] | str | None = None,
        expression: str | None = None,
        shard_format: str = "parquet",
        batch_size: int | str | None = None,
        rows_per_second: int | str | None = None,
        engine: Engine = "spark",
        shard_retry: int = 2,
        as_of: datetime | str | None = None,
        url: str | None = None,
        catalog_conn_id: str | None = None,
        spark_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if sum(given is not None for given in (table, sql, python_callable)) != 1:
            raise ValueError("A build needs exactly one of table, sql and python_callable.")
        if engine not in ENGINES:
            raise ValueError(f"engine = {engine!r} is not valid. Use one of: {', '.join(ENGINES)}.")
        if engine == "python" and (sql is not None or expression is not None):
            raise ValueError('sql and expression need Spark. Leave them out, or engine="python".')
        by = [num_shards if expression is None else expression, max_keys_per_shard, category_column]
        if sum(given is not None for given in by) != 1 or (category_column is None) != (categories is None):
            raise ValueError(
                "A build is sharded by one of these: num_shards, max_keys_per_shard, category_column with categories, or "
                "expression with num_shards."
            )
        self.dataset = dataset
        self.key = key
        self.table = table
        self.sql = sql
        self.python_callable = python_callable
        self.op_kwargs = dict(op_kwargs or {})
        self.num_shards = num_shards
        self.max_keys_per_shard = max_keys_per_shard
        self.category_column = category_column
        self.categories = categories
        self.expression = expression
        self.shard_format = shard_format
        self.batch_size = batch_size
        self.rows_per_second = rows_per_second
        self.engine = engine
        self.shard_retry = shard_retry
        self.as_of = as_of
        self.url = url
        self.catalog_conn_id = catalog_conn_id
        self.spark_conn_id = spark_conn_id

    def moment(self, context: Context) -> datetime:
        """Return the time that the data describes, in UTC."""
        from airflow_snowpack.store import utc_now

        given = read_moment("as_of", self.as_of) or context.get("data_interval_end")
        if given is None and (dag_run := context.get("dag_run")) is not None:
            given = dag_run.run_after  # the same for each try: a late one must not replace a newer run
        return utc_now() if given is None else given

    def spec(self) -> BuildSpec:
        """Return the specification of the build; raise :class:`InvalidBuild` or ``UnreadableArgument`` for a bad argument."""
        from airflow_snowpack.builds.build_spec import BuildSpec
        from airflow_snowpack.builds.errors import InvalidBuild
        from airflow_snowpack.builds.model import ShardFormat
        from airflow_snowpack.builds.write.attempt import BATCH_SIZE

        if self.shard_format not in list(ShardFormat):
            raise InvalidBuild("shard_format", self.shard_format, f"it must be one of {', '.join(ShardFormat)}")
        return BuildSpec(
            dataset=self.dataset,
            key=self.key,
            sharding=self._sharding(),
            max_keys_per_shard=read_number("max_keys_per_shard", self.max_keys_per_shard),
            shard_format=ShardFormat(self.shard_format),
            batch_size=read_number("batch_size", self.batch_size) or BATCH_SIZE,
            rows_per_second=read_number("rows_per_second", self.rows_per_second),
            shard_retry=self.shard_retry,
            retention=self.retention(),
        )

    def retention(self) -> Retention | None:
        """Return what a cleanup after the publication keeps; ``None`` for no cleanup."""
        return None

    def _sharding(self) -> Sharding | None:
        from airflow_snowpack.builds.model import Sharding

        num_shards = read_number("num_shards", self.num_shards)
        if self.category_column is not None:
            return Sharding.categories(self.category_column, tuple(read_values("categories", self.categories)))
        if num_shards is None:
            if self.max_keys_per_shard is None:
                raise UnreadableArgument("num_shards", self.num_shards, "a whole number of shards")
            return None
        return Sharding.hash(num_shards) if self.expression is None else Sharding.expression(self.expression, num_shards)

    def address(self) -> str:
        from airflow_snowpack.hooks.build_storage import BuildStorageHook

        given = read_text(self.url)
        return BuildStorageHook(self.storage_conn_id).url_of(self.dataset) if given is None else given.rstrip("/")
