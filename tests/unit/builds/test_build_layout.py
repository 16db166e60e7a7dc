"""Names of a dataset's objects, and keys' canonical bytes."""

from __future__ import annotations

import pytest

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey
from airflow_snowpack.builds.model import KeyType, canonical, hash_shard


def test_a_folder_of_an_attempt_is_no_beginning_of_another() -> None:
    first, tenth = layout.attempt_folder("r1", 1, 0, "1"), layout.attempt_folder("r1", 1, 0, "10")
    assert not tenth.startswith(first)
    assert not layout.shard_folder("r1", 100000).startswith(layout.shard_folder("r1", 10000))
    assert not layout.run_folder("r10").startswith(layout.run_folder("r1"))


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "1a", "a b", "a" * 201, "ä"])
def test_a_dataset_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidBuild, match="dataset = "):
        layout.check_dataset(name)


@pytest.mark.parametrize("run_id", ["", "a/b", "..", ".a", "a:b", "a" * 201])
def test_a_run_that_could_leave_its_folder_is_refused(run_id: str) -> None:
    with pytest.raises(InvalidBuild, match="run_id = "):
        layout.check_run(run_id)


def test_keys_have_the_documented_bytes() -> None:
    assert canonical(-2, KeyType.INTEGER) == b"\xfe" + b"\xff" * 7
    assert canonical("é", KeyType.STRING) == b"\xc3\xa9"
    assert canonical(bytearray(b"\0a"), KeyType.BYTES) == b"\0a"


@pytest.mark.parametrize(
    ("key", "key_type"),
    [
        (2**63, KeyType.INTEGER),
        (-(2**63) - 1, KeyType.INTEGER),
        (True, KeyType.INTEGER),
        (1.0, KeyType.INTEGER),
        (None, KeyType.STRING),
        ("\ud800", KeyType.STRING),
        ("text", KeyType.BYTES),
    ],
)
def test_a_key_without_canonical_bytes_is_refused(key: object, key_type: KeyType) -> None:
    with pytest.raises(InvalidRowKey, match="cannot be placed"):
        hash_shard(key, key_type, 8)


def test_keys_keep_their_shards_from_version_to_version() -> None:
    assert [hash_shard(key, KeyType.INTEGER, 1000) for key in (0, 1, -1)] == [897, 78, 627]
    assert hash_shard("N14228", KeyType.STRING, 1000) == 462
