"""Objects on S3 get older, and stay what they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import TableName
from examples.cluster.file_age import set_modified
from examples.cluster.seaweedfs import SeaweedFS
from examples.demo.flights import create_table
from examples.demo.table_files import TableFiles

AGE_S = 10 * 86_400.0


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[SeaweedFS]:
    server = SeaweedFS(tmp_path / "s3")
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_the_files_of_a_table_on_s3_are_copied_and_set_back_in_time(s3: SeaweedFS) -> None:
    rows = pa.table({"flight_date": pa.array([0, 1], pa.date32()), "flight": ["UA1545", "UA1714"]})
    table = create_table(s3.catalog("lake").load(), TableName.parse("demo.flights", catalog="lake"), rows)
    table.append(rows)
    files, moment = TableFiles(table), int(time.time() - AGE_S)
    (written,) = files.list("data")
    files.copy(written.path, written.path.replace(".parquet", "-copy.parquet"))  # a table bucket takes no other kind

    set_modified(s3.filer, [file.path for file in files.list()], moment)

    assert {file.mtime.timestamp() for file in files.list()} == {moment}
    assert [file.size for file in files.list("data")] == [written.size] * 2
    assert table.refresh().scan().to_arrow().equals(rows.cast(table.scan().to_arrow().schema))
