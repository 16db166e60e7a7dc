"""Locations are compared as places, not as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_snowpack.iceberg.locations import (
    Equalities,
    Relation,
    Spelling,
    is_inside,
    leads_elsewhere,
    normalise,
    parent,
    place_of,
    relation_of,
    relation_of_places,
)


@pytest.mark.parametrize(
    "spelling", ["/wh/db/t", "file:/wh/db/t", "file:///wh/db/t", "file://localhost/wh/db/t/", "FILE:/wh//db/./t", "/wh/x/../db/t"]
)
def test_every_spelling_of_a_local_folder_is_one_place(spelling: str) -> None:
    assert normalise(spelling) == "/wh/db/t"


@pytest.mark.parametrize("spelling", ["s3://lake/db/t", "s3a://lake/db/t/", "s3n://lake/db//t", "S3://lake/db/t"])
def test_every_client_of_an_object_store_means_one_place(spelling: str) -> None:
    assert normalise(spelling) == "s3://lake/db/t"


def test_a_name_that_begins_like_another_is_no_relation() -> None:
    assert relation_of("/wh/db/flights_2", "/wh/db/flights") is None
    assert not is_inside("s3://lake/attempt=10", "s3://lake/attempt=1")


def test_the_relation_says_which_lies_in_which() -> None:
    assert relation_of("file:/wh/db/t", "/wh/db/t/") is Relation.SAME
    assert relation_of("/wh/db/t/old", "file:///wh/db/t") is Relation.INSIDE
    assert relation_of("/wh", "file:///wh/db/t") is Relation.AROUND
    assert relation_of("s3://lake", "s3a://lake/db") is Relation.AROUND
    assert relation_of("/", "/wh") is Relation.AROUND


def test_the_same_path_in_two_stores_is_two_places() -> None:
    assert relation_of("s3://lake/db/t", "s3://pond/db/t") is None
    assert relation_of("hdfs://name:8020/db/t", "file:///db/t") is None
    assert relation_of("s3://lake/db/t", "/db/t") is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("wasbs://lake@acme.blob.core.windows.net/db/t", "abfss://lake@acme.dfs.core.windows.net/db/t"),
        ("wasb://lake@acme.blob.core.windows.net/db/t", "ABFS://lake@acme.dfs.core.windows.net/db/t/"),
        ("gcs://lake/db/t", "gs://lake/db/t"),
    ],
)
def test_drivers_of_one_store_mean_one_place(first: str, second: str) -> None:
    assert relation_of(first, second) is Relation.SAME


UNDECIDED = [
    ("hdfs://name:8020/db/t", "hdfs://name/db/t"),
    ("hdfs:///db/t", "hdfs://name/db/t/old"),
    ("hdfs://service/db", "hdfs://name:8020/db/t"),
    ("webhdfs://name:9870/db/t", "hdfs://name/db/t"),
    ("viewfs://cluster/tables/t", "hdfs://name/db/t"),
    ("/db/t", "hdfs://name/db/t"),
    ("s3://lake/db/t", "gs://lake/db/t"),
    ("oss://lake/db", "s3a://lake/db/t"),
    ("abfs://lake/db/t", "abfss://lake@acme.dfs.core.windows.net/db"),
    ("viewfs://cluster/tables/t", "s3://lake/db/t"),
    ("viewfs://cluster/tables/t", "file:///db/t"),
    ("dbfs:/mnt/tables/t", "abfss://lake@acme.dfs.core.windows.net/db/t"),
    ("alluxio://host:19998/tables/t", "s3://lake/db/t"),
]


@pytest.mark.parametrize(("first", "second"), UNDECIDED)
def test_what_only_the_cluster_could_decide_is_undecided(first: str, second: str) -> None:
    assert relation_of(first, second) is Relation.UNDECIDED
    assert relation_of(second, first) is Relation.UNDECIDED


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("hdfs://a/db/t", "hdfs://b/db/u"),
        ("hdfs:///db/t", "s3://lake/db/t"),
        ("abfs://lake@acme.dfs.core.windows.net/db/t", "abfs://lake@other.dfs.core.windows.net/db/t"),
    ],
)
def test_places_that_differ_in_any_case_are_decided(first: str, second: str) -> None:
    assert relation_of(first, second) is None


def test_the_owner_decides_which_authorities_and_schemes_are_equal() -> None:
    def relation(first: str, second: str, **pairs: dict[str, str]) -> Relation | None:
        equal = Equalities(**{name: tuple(each.items()) for name, each in pairs.items()})
        return relation_of_places(place_of(first, equal), place_of(second, equal))

    named = ("hdfs://nn1:8020/db/t", "hdfs://nn2/db/t")
    assert relation(*named, authorities={"nn1:8020,nn2": "cluster"}) is Relation.SAME
    assert relation(*named, authorities={"nn1:8020": "one", "nn2": "two"}) is None
    assert relation(*named, authorities={"nn1:8020": "one"}) is Relation.UNDECIDED
    assert relation("oss://lake/db/t", "s3a://lake/db", schemes={"oss,s3a": "s3"}) is Relation.INSIDE
    assert relation("hdfs://nn1:8020/db/t", "hdfs:///db/t", authorities={"nn1:8020,": "cluster"}) is Relation.SAME
    assert relation("/db/t", "hdfs://nn1/db/t", schemes={"file": "local", "hdfs": "cluster"}) is None
    mounted = ("viewfs://cluster/tables/t", "hdfs://nn1/db/t")
    assert relation(*mounted, schemes={"viewfs": "mounts"}) is Relation.UNDECIDED
    assert relation(*mounted, schemes={"viewfs": "mounts", "hdfs": "hdfs"}) is None


def test_a_symbolic_link_leads_to_the_place_behind_it(tmp_path: Path) -> None:
    (tmp_path / "real" / "data").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert relation_of(f"file://{tmp_path}/link/data", f"{tmp_path}/real") is Relation.INSIDE
    assert leads_elsewhere(f"{tmp_path}/link/data", str(tmp_path))
    assert not leads_elsewhere(f"{tmp_path}/link/data", f"file:{tmp_path}/link"), "the location itself may be a link"
    assert not leads_elsewhere(f"{tmp_path}/real/data", str(tmp_path))
    assert Spelling()(f"file:{tmp_path}/link/data/1.parquet") == Spelling()(f"{tmp_path}/real/data/1.parquet")


@pytest.mark.parametrize(
    ("location", "top"),
    [("s3://lake/a/b", "s3://lake"), ("s3://lake", "s3://lake"), ("file:/a", "/"), ("file:///a/b", "/"), ("/a", "/")],
)
def test_a_bucket_or_a_file_system_has_no_folder_around_it(location: str, top: str) -> None:
    for _ in range(4):
        location = parent(location)

    assert place_of(location) == place_of(top)
