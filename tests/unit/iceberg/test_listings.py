"""What a metastore's entry is by its parameters."""

from __future__ import annotations

import pytest

from airflow_snowpack.iceberg.listings import Listed, listed

METADATA = "s3://lake/t/metadata/v1.metadata.json"


@pytest.mark.parametrize(
    ("parameters", "location", "serde", "expected"),
    [
        ({"table_type": "ICEBERG", "metadata_location": METADATA}, "s3://lake/t", None, Listed(METADATA)),
        ({"table_type": "iceberg-view", "metadata_location": METADATA}, None, None, Listed(METADATA, is_view=True)),
        ({}, "s3://lake/parquet", {}, Listed(folders=("s3://lake/parquet",))),
        (None, "s3://lake/parquet", None, Listed(folders=("s3://lake/parquet",))),
        (
            {},
            "s3://lake/x__PLACEHOLDER__",
            {"path": "s3://lake/x"},
            Listed(folders=("s3://lake/x__PLACEHOLDER__", "s3://lake/x")),
        ),
        ({"table_type": "ICEBERG"}, "s3://lake/damaged", None, Listed(folders=("s3://lake/damaged",))),
        ({}, None, None, None),
    ],
    ids=["table", "view", "other format", "without parameters", "written by Spark", "without metadata", "view of Hive"],
)
def test_a_table_without_iceberg_metadata_owns_its_folders(
    parameters: dict[str, str] | None, location: str | None, serde: dict[str, str] | None, expected: Listed | None
) -> None:
    assert listed(parameters, location, serde) == expected
