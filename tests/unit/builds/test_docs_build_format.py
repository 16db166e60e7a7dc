"""The page about the format shows what the code really writes, and reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import xxhash

from airflow_snowpack.builds.json_format import checksum_of, read_attempt, read_current, read_manifest, to_json
from airflow_snowpack.builds.model import KeyType, canonical, hash_shard

PAGE = (Path(__file__).parents[3] / "docs" / "build-format.md").read_text()
POINTER, MANIFEST = (block.encode() for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
KEYS = re.findall(r"^\| `(.+?)` \| (integer|string|bytes) \| `([0-9a-f ]+)` \| `([0-9a-f]{16})` \| (\d+) \|$", PAGE, re.MULTILINE)


def test_the_pointer_on_the_page_is_written_and_read_byte_by_byte() -> None:
    pointer = read_current(POINTER, "_CURRENT")
    assert to_json(pointer) == POINTER
    assert pointer.checksum == checksum_of(MANIFEST)


def test_the_manifest_on_the_page_is_written_and_read_byte_by_byte() -> None:
    pointer = read_current(POINTER, "_CURRENT")
    manifest = read_manifest(MANIFEST, pointer.manifest, pointer.checksum)
    assert to_json(manifest) == MANIFEST
    assert (manifest.run_id, manifest.previous) == (pointer.run_id, pointer.previous)


def test_an_attempt_carries_its_own_checksum_as_on_the_page() -> None:
    data = to_json(read_manifest(MANIFEST, "x").shards[0])
    checksum = json.loads(data)["record_checksum"]
    digits = checksum.removeprefix("xxh3_64:").encode()
    assert data.rstrip().endswith(b'"' + checksum.encode() + b'"\n}')
    assert checksum == f"xxh3_64:{xxhash.xxh3_64_hexdigest(data.replace(digits, b'0' * 16))}"


def test_every_field_on_the_page_is_one_that_is_written_and_every_field_is_on_the_page() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE)) | {"column", "type"}
    written = json.loads(MANIFEST)
    data = to_json(read_manifest(MANIFEST, "x").shards[0])
    attempt = json.loads(data)
    assert {"format", "version", "run_id", "record_checksum"} | set(written["shards"][0]) == set(attempt)
    assert read_attempt(data, "x") == read_manifest(MANIFEST, "x").shards[0]
    fields = {*attempt, *written, *written["shards"][0], *written["sharding"], *json.loads(POINTER)} - {
        "kind",
        "hash",
        "seed",
        "dataset",
        "key",
    }
    assert fields <= named


@pytest.mark.parametrize(("key", "kind", "in_bytes", "digest", "shard"), KEYS)
def test_the_keys_on_the_page_have_the_hashes_on_the_page(key: str, kind: str, in_bytes: str, digest: str, shard: str) -> None:
    value = b"\0a" if kind == "bytes" else json.loads(key)
    data = canonical(value, KeyType(kind))
    assert data.hex(" ") == in_bytes
    assert xxhash.xxh3_64_hexdigest(data, seed=0) == digest
    assert hash_shard(value, KeyType(kind), 1000) == int(shard)


def test_the_page_has_a_key_of_each_type() -> None:
    assert {kind for _, kind, *_ in KEYS} == {kind.value for kind in KeyType}
