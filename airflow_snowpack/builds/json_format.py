"""The JSON of a build: attempt record, manifest and pointer, as in ``docs/build-format.md``.

    storage.write("manifests/…/1.json", data := to_json(manifest))
    read_manifest(data, "manifests/…/1.json", checksum_of(data)) == manifest

Invariant: what is read equals what was written, or is refused with the file's path and the problem. Unknown fields are ignored;
an unknown version is refused. The pointer has the checksum of its manifest. Attempt records and selections are *sealed*: they
contain their own checksum, computed with zeros in place of its 16 digits.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import xxhash

from airflow_snowpack.builds.errors import InvalidBuild, ManifestDamaged
from airflow_snowpack.builds.model import (
    MAX_PUBLICATION,
    PYTHON_TYPE,
    Current,
    Key,
    KeyType,
    Manifest,
    ShardAttemptResult,
    ShardFormat,
    Sharding,
    ShardingKind,
)

T = TypeVar("T")
Read = Callable[[dict[str, Any], str], Any]
"""Reads and checks a field of a JSON object, by name."""

VERSION = 1
CHUNK_BYTES = 4 * 1024 * 1024
ATTEMPT_FORMAT = "snowpack-shard-attempt"
MANIFEST_FORMAT = "snowpack-build-manifest"
CURRENT_FORMAT = "snowpack-build-pointer"

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1

_SEED = re.compile(r"[0-9a-f]{16}")
_UNSEALED = b"0" * 16
_SEAL = re.compile(rb'"record_checksum": "xxh3_64:([0-9a-f]{16})"\s*\}\s*$')


def checksum_of(data: bytes) -> str:
    """Return the checksum of an object: ``xxh3_64:`` and 16 hex digits."""
    return f"xxh3_64:{xxhash.xxh3_64_hexdigest(data, seed=0)}"


def file_checksum(path: Path) -> str:
    digest = xxhash.xxh3_64(seed=0)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return f"xxh3_64:{digest.hexdigest()}"


def to_json(record: ShardAttemptResult | Manifest | Current) -> bytes:
    """Return the bytes to store, deterministically."""
    match record:
        case ShardAttemptResult():
            return _sealed(ATTEMPT_FORMAT, {"run_id": record.run_id} | _fields_json(record, SHARD_FIELDS))
        case Manifest():
            return _json(MANIFEST_FORMAT, _manifest_json(record))
        case Current():
            return _json(CURRENT_FORMAT, _fields_json(record, CURRENT_FIELDS))


def selection_json(manifest: Manifest) -> bytes:
    """Return a selection: a sealed manifest, because no pointer has its checksum yet."""
    return _sealed(MANIFEST_FORMAT, _manifest_json(manifest))


def read_attempt(data: bytes, path: str) -> ShardAttemptResult:
    """Parse an attempt's record, or raise :class:`ManifestDamaged` if it is another object or not what was written."""
    _check_seal(data, path)
    return _read(data, path, ATTEMPT_FORMAT, lambda content: _shard(content, _text(content, "run_id")))


def read_manifest(data: bytes, path: str, checksum: str | None = None) -> Manifest:
    """Parse a manifest.

    :param checksum: the expected checksum; ``None`` to skip the check.
    :raises ManifestDamaged: it is not what was written, or its version is newer than this release supports.
    """
    if checksum is not None and (found := checksum_of(data)) != checksum:
        raise ManifestDamaged(path, f"its checksum is {found}, and it was written with {checksum}")
    return _read(data, path, MANIFEST_FORMAT, _manifest)


def read_selection(data: bytes, path: str) -> Manifest:
    """Parse a selection, or raise :class:`ManifestDamaged` if it is another object or not what was written."""
    _check_seal(data, path)
    return read_manifest(data, path)


def read_current(data: bytes, path: str) -> Current:
    """Parse a pointer, or raise :class:`ManifestDamaged` if it is none."""
    return _read(data, path, CURRENT_FORMAT, _current)


def sharding_json(sharding: Sharding) -> dict[str, Any]:
    """Return the manifest's form of a sharding."""
    content: dict[str, Any] = {"kind": sharding.kind.value, "num_shards": sharding.num_shards}
    match sharding.kind:
        case ShardingKind.HASH:
            return content | {"hash": "xxh3_64", "seed": 0}
        case ShardingKind.CATEGORIES:
            return content | {"column": sharding.column, "values": [_plain(value) for value in sharding.values]}
        case ShardingKind.EXPRESSION:
            return content | {"sql": sharding.sql}


def _manifest_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "dataset": manifest.dataset,
        "run_id": manifest.run_id,
        "as_of": _plain(manifest.as_of),
        "created_at": _plain(manifest.created_at),
        "key": {"column": manifest.key_column, "type": manifest.key_type.value},
        "sharding": sharding_json(manifest.sharding),
        "shard_format": manifest.shard_format.value,
        "columns": [{"name": name, "type": kind} for name, kind in manifest.columns],
        "sources": list(manifest.sources),
        "previous": manifest.previous,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "shards": [_fields_json(shard, SHARD_FIELDS) for shard in manifest.shards],
    }


def _fields_json(record: ShardAttemptResult | Current, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(getattr(record, name)) for name in fields}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case bytes():
            return {"base64": base64.b64encode(value).decode()}
    return value


def _json(form: str, content: Mapping[str, Any]) -> bytes:
    headed = {"format": form, "version": VERSION, **content}
    return (json.dumps(headed, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _sealed(form: str, content: Mapping[str, Any]) -> bytes:
    data = _json(form, {**content, "record_checksum": f"xxh3_64:{_UNSEALED.decode()}"})
    digits = checksum_of(data).removeprefix("xxh3_64:").encode()
    at = data.rindex(_UNSEALED)
    return data[:at] + digits + data[at + len(_UNSEALED) :]


class _Invalid(ValueError): ...


def _check_seal(data: bytes, path: str) -> None:
    """Raise :class:`ManifestDamaged` unless the bytes end with their own checksum."""
    seal = _SEAL.search(data)
    if seal is None:
        raise ManifestDamaged(path, "it does not end with its own record_checksum")
    begin, end = seal.span(1)
    found = checksum_of(data[:begin] + _UNSEALED + data[end:])
    if found != (written := f"xxh3_64:{seal[1].decode()}"):
        raise ManifestDamaged(path, f"its checksum is {found}, and it was written with {written}")


def _read(data: bytes, path: str, form: str, parse: Callable[[dict[str, Any]], T]) -> T:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError too
        raise ManifestDamaged(path, f"it is not valid JSON ({error})") from error
    try:
        if not isinstance(content, dict) or content.get("format") != form:
            raise _Invalid(f"it is not in the format {form}")
        version = _number(content, "version", least=1)
        if version > VERSION:
            problem = f"and this release reads up to version {VERSION}; upgrade airflow-snowpack"
            raise _Invalid(f"it has version {version} of {form}, {problem}")
        return parse(content)
    except (_Invalid, InvalidBuild) as error:
        raise ManifestDamaged(path, str(error)) from error


def _field(content: dict[str, Any], name: str) -> Any:
    try:
        return content[name]
    except KeyError:
        raise _Invalid(f"it has no {name!r}") from None


def _typed(content: dict[str, Any], name: str, kind: type[T]) -> T:
    value = _field(content, name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Invalid(f"its {name!r} is {value!r:.100}, and must be of the type {kind.__name__}")
    return value


def _text(content: dict[str, Any], name: str) -> str:
    text = _typed(content, name, str)
    if not _is_unicode(text):
        raise _Invalid(f"its {name!r} is {text!r:.100}, which is not Unicode text")
    return text


def _is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode the text: half of a surrogate pair, which JSON can escape, it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(content: dict[str, Any], name: str, *, least: int = 0, most: int = MAX_INTEGER) -> int:
    value = _typed(content, name, int)
    if value < least:
        raise _Invalid(f"its {name!r} is {value}, and must be at least {least}")
    if value > most:
        raise _Invalid(f"its {name!r} is {value!s:.30}, and must be at most {most:,}")
    return value


def _path(content: dict[str, Any], name: str) -> str:
    value = _text(content, name)
    if not value or value.startswith("/") or ".." in value.split("/"):
        raise _Invalid(f"its {name!r} is {value!r:.200}, which is not a path inside the dataset's folder")
    return value


def _seed(content: dict[str, Any], name: str) -> str:
    value = _text(content, name)
    if not _SEED.fullmatch(value):
        raise _Invalid(f"its {name!r} is {value!r:.100}, and must be 16 hex digits")
    return value


def _optional(read: Read) -> Read:
    return lambda content, name: None if content.get(name) is None else read(content, name)


def _time(content: dict[str, Any], name: str) -> datetime:
    text = _text(content, name)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _Invalid(f"its {name!r} is {text!r:.100}, which is not a time in ISO 8601") from None
    if moment.tzinfo is None:
        raise _Invalid(f"its {name!r} is {text!r:.100}, which has no time zone")
    return moment.astimezone(UTC)


def _key(content: dict[str, Any], name: str) -> Key:
    return _as_key(_field(content, name), name)


def _as_key(value: Any, name: str) -> Key:
    match value:
        case bool():
            pass
        case int() if MIN_INTEGER <= value <= MAX_INTEGER:
            return value
        case str() if _is_unicode(value):
            return value
        case {"base64": str() as text}:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                pass
    raise _Invalid(f"its {name!r} is {value!r:.100}, which is not a key")


def _shard(content: dict[str, Any], run_id: str) -> ShardAttemptResult:
    return ShardAttemptResult(run_id=run_id, **{name: read(content, name) for name, read in SHARD_FIELDS.items()})


def read_sharding(content: dict[str, Any]) -> Sharding:
    """Parse the result of :func:`sharding_json`, or raise ``ValueError``."""
    kind = _one_of(content, "kind", ShardingKind)
    num_shards = _number(content, "num_shards", least=1)
    match kind:
        case ShardingKind.HASH:
            if (content.get("hash"), content.get("seed")) != ("xxh3_64", 0):
                found = f"{content.get('hash')!r}, seed {content.get('seed')!r}"
                raise _Invalid(f"it is sharded by {found}, which this release does not support")
            return Sharding.hash(num_shards)
        case ShardingKind.CATEGORIES:
            values = tuple(_as_key(value, "values") for value in _typed(content, "values", list))
            if len(values) != num_shards:
                raise _Invalid(f"it has {len(values)} categories for {num_shards} shards")
            return Sharding.categories(_text(content, "column"), values)
        case ShardingKind.EXPRESSION:
            return Sharding.expression(_text(content, "sql"), num_shards)


def _one_of(content: dict[str, Any], name: str, kind: Callable[[str], T]) -> T:
    text = _text(content, name)
    try:
        return kind(text)
    except ValueError:
        raise _Invalid(f"its {name!r} is {text!r:.100}, which this release does not know") from None


def _objects(content: dict[str, Any], name: str) -> list[dict[str, Any]]:
    values = _typed(content, name, list)
    if not all(isinstance(value, dict) for value in values):
        raise _Invalid(f"its {name!r} must be a list of objects")
    return values


def _manifest(content: dict[str, Any]) -> Manifest:
    run_id = _text(content, "run_id")
    key = _typed(content, "key", dict)
    manifest = Manifest(
        dataset=_text(content, "dataset"),
        run_id=run_id,
        as_of=_time(content, "as_of"),
        created_at=_time(content, "created_at"),
        key_column=_text(key, "column"),
        key_type=_one_of(key, "type", KeyType),
        sharding=read_sharding(_typed(content, "sharding", dict)),
        shard_format=_one_of(content, "shard_format", ShardFormat),
        columns=tuple((_text(column, "name"), _text(column, "type")) for column in _objects(content, "columns")),
        shards=tuple(_shard(shard, run_id) for shard in _objects(content, "shards")),
        sources=tuple(_objects(content, "sources")),
        previous=_optional(_path)(content, "previous"),
    )
    _check_shards(manifest)
    for name, found in (("rows", manifest.rows), ("bytes", manifest.bytes)):
        if _typed(content, name, int) != found:
            raise _Invalid(f"its {name!r} is {content[name]}, and its shards have {found} together")
    return manifest


def _check_shards(manifest: Manifest) -> None:
    if [shard.shard_id for shard in manifest.shards] != list(range(manifest.sharding.num_shards)):
        raise _Invalid(f"it does not list each of its {manifest.sharding.num_shards} shards once and in order")
    kind = PYTHON_TYPE[manifest.key_type]
    for shard in manifest.shards:
        if not all(key is None or isinstance(key, kind) for key in (shard.min_key, shard.max_key)):
            raise _Invalid(f"shard {shard.shard_id} has a key that is not of the type {manifest.key_type.value}")
        if shard.rows and (shard.url is None or shard.checksum is None):
            raise _Invalid(f"shard {shard.shard_id} has rows, but no file or no checksum")


def _current(content: dict[str, Any]) -> Current:
    return Current(**{name: read(content, name) for name, read in CURRENT_FIELDS.items()})


SHARD_FIELDS: Mapping[str, Read] = {
    "shard_id": _number,
    "attempt": _number,
    "task_attempt_id": _optional(_number),
    "url": _optional(_path),
    "rows": _number,
    "bytes": _number,
    "min_key": _optional(_key),
    "max_key": _optional(_key),
    "checksum": _optional(_text),
    "finished_at": _time,
    "block_seed": _optional(_seed),
}
CURRENT_FIELDS: Mapping[str, Read] = {
    "dataset": _text,
    "publication": partial(_number, least=1, most=MAX_PUBLICATION),
    "run_id": _text,
    "manifest": _path,
    "checksum": _text,
    "moved_at": _time,
    "previous": _optional(_path),
    "previous_checksum": _optional(_text),
}
