"""Locations are compared as places, not as text."""

from __future__ import annotations

import pytest

from airflow_snowpack.iceberg.locations import Relation, is_inside, normalise, relation_of


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
    assert relation_of("hdfs://name:8020/db/t", "/db/t") is None
