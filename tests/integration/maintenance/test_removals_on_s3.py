"""A removal on a real S3 server: keys as S3 lists them, sizes and times as S3 reports them, and exactly the approved objects go.

Spark's part, which compares the list with the metadata and deletes, is done here by PyIceberg's access to the same objects: the
tests have no JAR of Iceberg for AWS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from s3_server import access_to, s3_client, s3_server

from airflow_snowpack.iceberg import ForeignFiles, QuarantineNotPossible, StoredFile, TableName
from airflow_snowpack.iceberg.quarantine import Means, open_quarantine
from airflow_snowpack.installation import Installation
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action_run import ActionRun
from airflow_snowpack.maintenance.removals.model import ItemOutcome, RemovalKind, RemovalState
from airflow_snowpack.maintenance.removals.of_job import JobRemovals
from airflow_snowpack.maintenance.removals.orphan_files import OUTSIDE, REPLACED, ForeignGuard, OrphanFiles
from airflow_snowpack.maintenance.removals.quarantine import quarantine_settings, restore
from airflow_snowpack.maintenance.removals.running import carry_out
from airflow_snowpack.spark import SparkWork
from airflow_snowpack.store import Actor, open_store

if TYPE_CHECKING:
    from pyiceberg.table import Table


pytestmark = pytest.mark.one_database
TABLE = TableName("lake", "db", "flights", "0f0f0f0f0f0f")
NAMES = ["a b#c?d%20é+&=.parquet", "e\u0301.parquet", "\u00e9.parquet", "rewritten.parquet", "gone.parquet"]
IN_TWO_DAYS = timedelta(days=2)


def write(table: Table, name: str, content: bytes = b"stray", prefix: str | None = None) -> str:
    path = f"{prefix or table.location()}/data/{name}"
    with PyArrowFileIO(table.io.properties).fs_by_scheme("s3", "lake").open_output_stream(path.removeprefix("s3://")) as stream:
        stream.write(content)
    return path


def delete_objects(run: ActionRun, settings: Mapping[str, Any], paths: Sequence[str]) -> Sequence[str]:
    objects = PyArrowFileIO(run.table().io.properties).fs_by_scheme("s3", "lake")
    for path in paths:
        objects.delete_file(path.removeprefix("s3://"))
    return paths


def test_exactly_the_approved_objects_are_deleted(store_url: str, tmp_path: Path) -> None:
    with s3_server() as options, open_store(store_url, clock=lambda: datetime.now(UTC) + IN_TWO_DAYS) as store:
        catalog = catalog_on(options, tmp_path)
        rows = pa.table({"id": pa.array([1, 2, 3])})
        table = catalog.create_table(TABLE.identifier, rows.schema)
        table.append(rows)
        paths = [write(table, name) for name in NAMES]
        folder, double = f"{table.location()}/data/", f"{table.location()}/data//double.parquet"
        installation = Installation(store)
        removals, jobs = installation.removals, installation.jobs

        jobs.submit(TABLE, ["remove_orphan_files"])
        claim = jobs.claim("w", catalog_id=TABLE.catalog_id)
        assert claim is not None
        of_job = JobRemovals(removals, claim.job)
        nothing = cast("Any", None)  # what deletes here needs no session
        skipped = Counter[str]()
        neighbour = write(table, "stray.parquet", prefix=f"{table.location()}_too")
        listed, older_than = [*paths, folder, double, neighbour], store.clock() - timedelta(days=1)
        others = ForeignFiles(catalog, ())
        items = ForeignGuard().planned(table, others, listed, older_than=older_than, skipped=skipped)
        planned = of_job.plan(RemovalKind.ORPHANS, table, items, settings={"approve_above_files": 0})
        assert planned is not None
        assert (planned.state, planned.item_count, planned.bytes) == (RemovalState.AWAITING_APPROVAL, 6, 30)
        assert skipped == {"it no longer exists": 2}, "a folder is no object"

        run = ActionRun("job", TABLE, "remove_orphan_files", nothing, SparkWork(), catalog, store.clock(), 1, removals=of_job)
        refused = carry_out(run, planned.removal_id, OrphanFiles(delete_objects))
        assert "cannot be run: it awaits approval" in str(refused.error)
        removals.approve(planned.removal_id, actor=Actor("vera", "page"))
        write(table, "rewritten.parquet", b"other content")
        delete_objects(run, {}, [paths[-1]])
        later = write(table, "later.parquet")
        effect = carry_out(run, planned.removal_id, OrphanFiles(delete_objects))

        assert (effect.outcome, effect.message) == (
            ActionOutcome.SUCCEEDED,
            "Removed 3 orphan files; 1 no longer existed; 2 left out",
        )
        outcomes = {item.name: (item.outcome, item.reason) for item in removals.items(planned.removal_id)}
        deleted = dict.fromkeys(paths[:3], (ItemOutcome.DELETED, None))
        kept = {paths[3]: (ItemOutcome.LEFT_OUT, REPLACED), neighbour: (ItemOutcome.LEFT_OUT, OUTSIDE)}
        assert outcomes == deleted | kept | {paths[4]: (ItemOutcome.GONE, None)}
        assert objects_in(table) == sorted([paths[3], later])
        assert catalog.load_table(TABLE.identifier).scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
        installation.close()


def objects_in(table: Table) -> list[str]:
    """Return the strays that are left."""
    from pyarrow.fs import FileSelector, FileType

    objects = PyArrowFileIO(table.io.properties).fs_by_scheme("s3", "lake")
    found = objects.get_file_info(
        FileSelector(f"{table.location()}/data".removeprefix("s3://"), recursive=True, allow_not_found=True)
    )
    named = {task.file.file_path for task in table.scan().plan_files()}
    return sorted({f"s3://{info.path}" for info in found if info.type == FileType.File} - named)


def test_a_versioned_bucket_hides_objects_by_delete_markers_and_shows_them_again(store_url: str, tmp_path: Path) -> None:
    with s3_server() as options, open_store(store_url, clock=lambda: datetime.now(UTC) + IN_TWO_DAYS) as store:
        catalog = catalog_on(options, tmp_path)
        table = catalog.create_table(TABLE.identifier, pa.schema([("id", pa.int64())]))
        with pytest.raises(QuarantineNotPossible, match=r"the bucket 'lake' does not keep versions.*Nothing was deleted"):
            quarantine_settings(table, may_copy=False)
        versions(options, "Enabled")
        paths = [write(table, name) for name in NAMES]
        installation = Installation(store)
        removals, jobs = installation.removals, installation.jobs
        claim = jobs.submit_and_claim(TABLE, ["remove_orphan_files"], "w")
        of_job = JobRemovals(removals, claim.job)
        nothing = cast("Any", None)
        settings = {"quarantine": "7d", **quarantine_settings(table, may_copy=False)}
        items = ForeignGuard().planned(
            table, ForeignFiles(catalog, ()), paths, older_than=store.clock() - timedelta(days=1), skipped=Counter()
        )
        planned = of_job.plan(RemovalKind.ORPHANS, table, items, settings=settings)
        assert planned is not None
        run = ActionRun("job", TABLE, "remove_orphan_files", nothing, SparkWork(), catalog, store.clock(), 1, removals=of_job)

        versions(options, "Suspended")
        suspended = carry_out(run, planned.removal_id, OrphanFiles(lambda run, settings, paths: paths))
        assert "does not keep versions" in str(suspended.error) or "does not allow any more" in str(suspended.error)
        assert objects_in(table) == sorted(paths)
        versions(options, "Enabled")
        items = ForeignGuard().planned(
            table, ForeignFiles(catalog, ()), paths, older_than=store.clock() - timedelta(days=1), skipped=Counter()
        )
        planned = of_job.plan(RemovalKind.ORPHANS, table, items, settings=settings)
        assert planned is not None
        effect = carry_out(run, planned.removal_id, OrphanFiles(lambda run, settings, paths: paths))
        assert effect.metrics["quarantined_files_count"] == len(NAMES), effect
        assert objects_in(table) == []

        # As if a writer had come between the guard and the delete marker.
        (first, *_) = removals.items(planned.removal_id)
        between = StoredFile(write(table, "between.parquet"), 5, first.at)
        quarantine = open_quarantine(Means.DELETE_MARKER, table.location(), table.io.properties, planned.removal_id)
        write(table, "between.parquet", b"newer content")
        quarantine.take(between)
        with pytest.raises(FileExistsError, match="was written again"):
            quarantine.restore(between)
        assert objects_in(table) == [between.path], "the newer one is not hidden any more"
        s3_client(options).delete_object(Bucket="lake", Key=between.path.removeprefix("s3://lake/"))

        # As a client repeats a deletion whose response was lost.
        s3_client(options).delete_object(Bucket="lake", Key=paths[1].removeprefix("s3://lake/"))
        write(table, NAMES[0], b"newer content")
        restored = restore(of_job, catalog, planned.removal_id, (), lambda: False)
        assert "1 file could not be restored: another file is in its place" in str(restored.error)
        assert restored.metrics == {"restored_files_count": len(NAMES) - 1}
        assert objects_in(table) == sorted(paths)
        assert restore(of_job, catalog, planned.removal_id, paths[1:], lambda: False).error is None, "it can be repeated"
        installation.close()


def test_a_bucket_without_versions_keeps_copies_if_the_owner_allows_them(store_url: str, tmp_path: Path) -> None:
    with s3_server() as options:
        table = catalog_on(options, tmp_path).create_table(TABLE.identifier, pa.schema([("id", pa.int64())]))
        (means,) = quarantine_settings(table, may_copy=True).values()
        quarantine = open_quarantine(Means(means), table.location(), table.io.properties, "r1")
        paths = [write(table, name) for name in NAMES]
        files = [StoredFile(path, 5, None) for path in paths]
        for file in files:
            quarantine.take(file)
        assert objects_in(table) == []
        assert all(quarantine.holds(file) for file in files)
        for file in files:
            quarantine.restore(file)
            quarantine.restore(file)
        assert objects_in(table) == sorted(paths)


def catalog_on(options: Mapping[str, str], folder: Path) -> SqlCatalog:
    uri = f"sqlite:///{folder}/catalog.db"
    catalog = SqlCatalog("lake", uri=uri, warehouse="s3://lake/warehouse", **access_to(options))
    catalog.create_namespace("db")
    return catalog


def versions(options: Mapping[str, str], status: str) -> None:
    s3_client(options).put_bucket_versioning(Bucket="lake", VersioningConfiguration={"Status": status})
