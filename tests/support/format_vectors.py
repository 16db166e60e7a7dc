"""The test vectors of the build format, made by the code itself: what ``docs/build-format-vectors.json`` has.

python tests/support/format_vectors.py > docs/build-format-vectors.json
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from airflow_snowpack.builds.errors import ManifestDamaged
from airflow_snowpack.builds.json_format import (
    ATTEMPT_FORMAT,
    CURRENT_FORMAT,
    checksum_of,
    read_attempt,
    read_current,
    to_json,
)
from airflow_snowpack.builds.model import (
    MAX_PUBLICATION,
    Current,
    Key,
    KeyType,
    ShardAttemptResult,
    canonical,
    hash_shard,
    is_newer,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
SHARDS = (1, 2, 8, 1000, 99_991)
# xxh3 takes another way for up to 3, 8, 16, 128 and 240 bytes, and from 1,024 on it scrambles.
LENGTHS = (0, 1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 96, 97, 128, 129, 144, 240, 241, 256, 1024, 1025, 1088, 5000)
INTEGERS = (0, 1, -1, 42, 255, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
TEXTS = ("", "a", "N14228", "é", "日本語", "😀", "a\0b", "user-000000001", "x" * 17, "x" * 129, "x" * 241, "x" * 1025)


def vectors() -> dict[str, Any]:
    """Keys, checksums of bytes, pointers that a reader follows, files of shards, and records that a reader takes or refuses."""
    keys: list[tuple[KeyType, Key]] = [
        *((KeyType.INTEGER, key) for key in INTEGERS),
        *((KeyType.STRING, key) for key in TEXTS),
        *((KeyType.BYTES, _bytes(length)) for length in LENGTHS),
    ]
    return {
        "format": "snowpack-build-vectors",
        "version": 1,
        "keys": [_key(kind, key) for kind, key in keys],
        "checksums": [{"base64": _base64(data), "checksum": checksum_of(data)} for data in map(_bytes, LENGTHS)],
        "pointers": [
            {"seen": seen, "publication": number, "follows": is_newer(number, seen)}
            for seen, number in (
                (8, 9),
                (8, 8),
                (8, 7),
                (8, MAX_PUBLICATION),
                (MAX_PUBLICATION, 9),
                (MAX_PUBLICATION, MAX_PUBLICATION),
            )
        ],
        "shards": [
            {"base64": _base64(data), "bytes": 64, "checksum": checksum_of(_bytes(64)), "sound": data == _bytes(64)}
            for data in (_bytes(64), _bytes(63), _bytes(65), _bytes(63) + b"x", bytes(64))
        ],
        "records": [_record(form, data) for form, data in _records()],
    }


def text() -> str:
    """The file, as it is kept."""
    return json.dumps(vectors(), indent=1, ensure_ascii=True) + "\n"


def _key(kind: KeyType, key: Key) -> dict[str, Any]:
    data = canonical(key, kind)
    return {
        "type": kind.value,
        "key": {"base64": _base64(key)} if isinstance(key, bytes) else key,
        "canonical": data.hex(),
        "xxh3_64": checksum_of(data).removeprefix("xxh3_64:"),
        "shards": {str(count): hash_shard(key, kind, count) for count in SHARDS},
    }


def _records() -> list[tuple[str, bytes]]:
    attempt = ShardAttemptResult("r1", 7, 0, 31, "data/r1/shard.sqlite", 41, 8192, -5, 2**63 - 1, checksum_of(b"x"), AT)
    sealed = to_json(attempt)
    pointer = Current("flights", 8, "r1", "manifests/r1/1.json", checksum_of(b"m"), AT, "manifests/r0/1.json", checksum_of(b"p"))
    written = to_json(pointer)
    return [
        (ATTEMPT_FORMAT, sealed),
        (ATTEMPT_FORMAT, to_json(replace(attempt, min_key="é", max_key="日本語", task_attempt_id=None))),
        (ATTEMPT_FORMAT, to_json(replace(attempt, min_key=b"\0a", max_key=b"\xff"))),
        (ATTEMPT_FORMAT, sealed.replace(b'"rows": 41', b'"rows": 0')),
        (ATTEMPT_FORMAT, sealed.replace(b'"record_checksum"', b'"other_checksum"')),
        (ATTEMPT_FORMAT, sealed[:100]),
        (CURRENT_FORMAT, written),
        (CURRENT_FORMAT, to_json(replace(pointer, publication=MAX_PUBLICATION))),
        *((CURRENT_FORMAT, to_json(replace(pointer, publication=number))) for number in (0, MAX_PUBLICATION + 1, 2**63, 2**70)),
        (CURRENT_FORMAT, written.replace(b'"version": 1', b'"version": 2')),
        (CURRENT_FORMAT, sealed),
    ]


def _record(form: str, data: bytes) -> dict[str, Any]:
    read = read_attempt if form == ATTEMPT_FORMAT else read_current
    try:
        read(data, "record")
    except ManifestDamaged as error:
        return {"format": form, "text": data.decode(), "sound": False, "why": str(error)}
    return {"format": form, "text": data.decode(), "sound": True}


def _bytes(length: int) -> bytes:
    return bytes(at * 37 % 251 for at in range(length))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    sys.stdout.write(text())
