"""What a build writes as JSON is read back as it was, and anything else is refused with its path and what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from airflow_snowpack.builds.errors import ManifestDamaged
from airflow_snowpack.builds.json_format import (
    checksum_of,
    read_attempt,
    read_current,
    read_manifest,
    read_selection,
    read_sharding,
    selection_json,
    to_json,
)
from airflow_snowpack.builds.model import Current, Key, KeyType, Manifest, ShardAttemptResult, ShardFormat, Sharding

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)

text = st.text(st.characters(exclude_categories=["Cs"]))
moments = st.datetimes(timezones=st.just(UTC))
counts = st.integers(0, 2**63 - 1)
keys_of: dict[KeyType, st.SearchStrategy[Key]] = {
    KeyType.INTEGER: st.integers(-(2**63), 2**63 - 1),
    KeyType.STRING: text,
    KeyType.BYTES: st.binary(),
}


@st.composite
def attempts(draw: st.DrawFn, key_type: KeyType | None = None, shard_id: int | None = None) -> ShardAttemptResult:
    keys = st.none() | keys_of[key_type or draw(st.sampled_from(KeyType))]
    return ShardAttemptResult(
        run_id="r1",
        shard_id=draw(st.integers(0, 99_999)) if shard_id is None else shard_id,
        attempt=draw(st.integers(0, 9)),
        task_attempt_id=draw(st.none() | counts),
        url=f"data/r1/{draw(st.integers(0, 9))}",
        rows=draw(counts),
        bytes=draw(counts),
        min_key=draw(keys),
        max_key=draw(keys),
        checksum=checksum_of(draw(st.binary())),
        finished_at=draw(moments),
    )


@st.composite
def shardings(draw: st.DrawFn) -> Sharding:
    values = draw(st.lists(st.one_of(*keys_of.values()), min_size=1, max_size=4, unique=True))
    hashed = Sharding.hash(draw(st.integers(1, 4)))
    by_sql = Sharding.expression(draw(text), draw(st.integers(1, 4)))
    return draw(st.sampled_from([hashed, by_sql, Sharding.categories(draw(text), tuple(values))]))


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    key_type, sharding = draw(st.sampled_from(KeyType)), draw(shardings())
    return Manifest(
        dataset="flights",
        run_id="r1",
        as_of=draw(moments),
        created_at=draw(moments),
        key_column=draw(text),
        key_type=key_type,
        sharding=sharding,
        shard_format=draw(st.sampled_from(ShardFormat)),
        columns=tuple(draw(st.lists(st.tuples(text, text), max_size=3))),
        shards=tuple(draw(attempts(key_type, shard_id)) for shard_id in range(sharding.num_shards)),
        sources=tuple(draw(st.lists(st.dictionaries(text, text | counts | st.none(), max_size=2), max_size=2))),
        previous=draw(st.none() | st.just("manifests/r0/1.json")),
    )


@given(attempts())
def test_an_attempt_is_read_as_it_was_written(attempt: ShardAttemptResult) -> None:
    assert read_attempt(to_json(attempt), "x") == attempt


@settings(max_examples=60)
@given(attempts(), st.data())
def test_an_attempt_that_was_altered_in_any_byte_is_refused(attempt: ShardAttemptResult, data: st.DataObject) -> None:
    written = to_json(attempt)
    at = data.draw(st.integers(0, len(written.rstrip()) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != written[at]))
    with pytest.raises(ManifestDamaged, match="checksum"):
        read_attempt(written[:at] + bytes([other]) + written[at + 1 :], "x")


def test_an_attempt_altered_to_no_rows_or_without_its_checksum_is_refused() -> None:
    attempt = ShardAttemptResult("r1", 0, 0, None, "x", 41, 1, 1, 9, checksum_of(b""), MIDNIGHT)
    content = json.loads(to_json(attempt))
    for altered in (content | {"rows": 0}, {name: value for name, value in content.items() if name != "record_checksum"}):
        with pytest.raises(ManifestDamaged, match=r"x cannot be used: .*checksum"):
            read_attempt(json.dumps(altered, indent=1).encode() + b"\n", "x")


@given(manifests())
def test_a_selection_is_read_as_it_was_written_and_refused_once_it_was_altered(manifest: Manifest) -> None:
    data = selection_json(manifest)
    assert read_selection(data, "x") == manifest
    with pytest.raises(ManifestDamaged, match="its checksum is"):
        read_selection(data.replace(b'"dataset": "flights"', b'"dataset": "trains"'), "x")


@settings(max_examples=40)
@given(manifests())
def test_a_manifest_is_read_as_it_was_written_and_has_a_checksum_of_its_own(manifest: Manifest) -> None:
    data = to_json(manifest)
    assert read_manifest(data, "x", checksum_of(data)) == manifest
    with pytest.raises(ManifestDamaged, match="its checksum is"):
        read_manifest(data + b" ", "x", checksum_of(data))


@settings(max_examples=60)
@given(manifests(), st.data())
def test_any_other_content_is_refused_as_damaged(manifest: Manifest, data: st.DataObject) -> None:
    content: dict[str, Any] = json.loads(to_json(manifest))
    where: Any = data.draw(st.sampled_from([content, content["sharding"], content["key"], content["shards"][0]]))
    name = data.draw(st.sampled_from(sorted(where)))
    where[name] = data.draw(st.sampled_from([None, True, -1, "…", [], {}, [None], 1.5]))
    written = json.dumps(content).encode()
    try:
        read = read_manifest(written, "manifests/r1/1.json")
    except ManifestDamaged as error:
        refused = str(error)
    else:
        assert read_manifest(to_json(read), "x") == read
        return
    assert refused.startswith("manifests/r1/1.json cannot be used: ")


def pointer() -> Current:
    checksum = checksum_of(b"")
    return Current("flights", 7, "r1", "manifests/r1/1.json", checksum, MIDNIGHT, "manifests/r0/1.json", checksum)


def test_a_pointer_is_read_as_it_was_written() -> None:
    assert read_current(to_json(pointer()), "_CURRENT") == pointer()
    assert read_current(to_json(first := replace(pointer(), previous=None, previous_checksum=None)), "_CURRENT") == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "this release reads up to version 1; upgrade airflow-snowpack"),
        ({"format": "something"}, "not in the format snowpack-build-pointer"),
        ({"manifest": "../other/manifests/r1/1.json"}, "not a path inside"),
        ({"manifest": "/etc/passwd"}, "not a path inside"),
        ({"publication": 0}, "must be at least 1"),
        ({"moved_at": "2026-01-01T00:00:00"}, "has no time zone"),
    ],
)
def test_a_pointer_that_must_not_be_followed_is_refused(change: dict[str, Any], message: str) -> None:
    content = json.loads(to_json(pointer())) | change
    with pytest.raises(ManifestDamaged, match=message):
        read_current(json.dumps(content).encode(), "_CURRENT")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{", b"null", to_json(pointer())[:40], b"[" * 100_000])
def test_half_a_pointer_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestDamaged, match="_CURRENT cannot be used"):
        read_current(data, "_CURRENT")


def test_a_field_that_a_later_release_added_is_ignored() -> None:
    content = json.loads(to_json(pointer())) | {"color": "blue"}
    assert read_current(json.dumps(content).encode(), "_CURRENT") == pointer()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"kind": "moon_phase", "num_shards": 1}, "its 'kind' is 'moon_phase', which this release does not know"),
        ({"kind": "categories", "column": "c", "num_shards": 1, "values": [True]}, "its 'values' is True, which is not a key"),
    ],
)
def test_a_sharding_that_this_release_cannot_read_is_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_sharding(content)


def test_a_key_of_bytes_differs_from_one_of_text() -> None:
    attempt = ShardAttemptResult("r1", 0, 0, None, "x", 1, 1, b"AQ==", "AQ==", checksum_of(b""), MIDNIGHT)
    content = json.loads(to_json(attempt))
    assert (content["min_key"], content["max_key"]) == ({"base64": "QVE9PQ=="}, "AQ==")
    assert read_attempt(to_json(attempt), "x") == attempt


@pytest.mark.parametrize("number", [2**53, 2**63 - 1, 2**63, 2**70, 10**4000])
def test_a_publication_that_no_counting_reaches_is_refused(number: int) -> None:
    content = json.loads(to_json(pointer())) | {"publication": number}
    with pytest.raises(ManifestDamaged, match=r"its 'publication' is .* must be at most 9,007,199,254,740,991"):
        read_current(json.dumps(content).encode(), "_CURRENT")


def test_a_number_that_the_registry_cannot_store_is_refused() -> None:
    attempt = ShardAttemptResult("r1", 0, 0, None, "x", 2**63, 1, None, None, checksum_of(b""), MIDNIGHT)
    with pytest.raises(ManifestDamaged, match="its 'rows' is 9223372036854775808, and must be at most"):
        read_attempt(to_json(attempt), "x")
