"""Keys: their canonical bytes, and the shard that they hash to. Whoever reads a manifest can repeat this in any language.

    >>> canonical(7, KeyType.INTEGER)
    b'\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x00'
    >>> hash_shard("N14228", KeyType.STRING, num_shards=8)
    6

The rule: xxh3-64 with seed 0 of the canonical bytes, as an unsigned number, modulo the number of shards. An integer is 8 bytes,
signed and little-endian; a string its UTF-8; bytes are themselves. A key that has no such bytes is refused, never rounded.
"""

from __future__ import annotations

from enum import StrEnum

import xxhash

from airflow_snowpack.builds.errors import InvalidKey

Key = int | str | bytes


class KeyType(StrEnum):
    """The three kinds of keys. Columns of narrower integers are ``INTEGER``."""

    INTEGER = "integer"
    STRING = "string"
    BYTES = "bytes"


KEY_TYPES: dict[type, KeyType] = {int: KeyType.INTEGER, str: KeyType.STRING, bytes: KeyType.BYTES}
"""What kind of key a value of Python is."""


def canonical(key: object, key_type: KeyType) -> bytes:
    """The bytes that are hashed.

    :raises InvalidKey: null, of another type, an integer outside of 64 bits, or text that is not Unicode.
    """
    match key_type, key:
        case KeyType.INTEGER, int() if not isinstance(key, bool):
            try:
                return key.to_bytes(8, "little", signed=True)
            except OverflowError:
                raise InvalidKey(key, "an integer key must fit into 64 bits, signed") from None
        case KeyType.STRING, str():
            try:
                return key.encode()
            except UnicodeEncodeError as error:
                raise InvalidKey(key, f"it is not Unicode text ({error.reason})") from None
        case KeyType.BYTES, bytes() | bytearray() | memoryview():
            return bytes(key)
    raise InvalidKey(key, f"it is {type(key).__name__}, and the keys of this build are of the type {key_type.value}")


def hash_shard(key: object, key_type: KeyType, num_shards: int) -> int:
    """The shard of a key, from 0 to ``num_shards - 1``.

    :raises InvalidKey: see :func:`canonical`.
    """
    return xxhash.xxh3_64_intdigest(canonical(key, key_type), seed=0) % num_shards
