"""Sets the modification times of objects in SeaweedFS back, which S3 cannot: a demo does not wait for days.

set_modified(s3.filer, ["icelake/demo/flights/data/00000.parquet"], time.time() - 864_000)

It reads each entry of SeaweedFS's filer and writes it back with another time. The entry stays in its encoded form: in Protocol
Buffers, a field that is appended replaces an earlier one, and a message that is appended merges into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from collections.abc import Iterable

SERVICE = "/filer_pb.SeaweedFiler/"
# The numbers of fields in SeaweedFS's filer.proto.
LOOKUP_DIRECTORY, LOOKUP_NAME = 1, 2
FOUND_ENTRY = 1
UPDATE_DIRECTORY, UPDATE_ENTRY = 1, 2
ENTRY_ATTRIBUTES = 4
ATTRIBUTES_MTIME = 2
LENGTH_DELIMITED = 2


def set_modified(filer: str, paths: Iterable[str], moment: float) -> None:
    """Set the modification time of objects.

    :param filer: the address of the filer's gRPC port.
    :param paths: ``bucket/key``.
    :param moment: seconds since 1970.
    """
    attributes = _number(ATTRIBUTES_MTIME << 3) + _number(int(moment))
    with grpc.insecure_channel(filer) as channel:
        lookup, update = (channel.unary_unary(f"{SERVICE}{name}") for name in ("LookupDirectoryEntry", "UpdateEntry"))
        for path in paths:
            folder, _, name = f"/buckets/{path}".rpartition("/")
            found = lookup(_field(LOOKUP_DIRECTORY, folder.encode()) + _field(LOOKUP_NAME, name.encode()))
            entry = _content(FOUND_ENTRY, found) + _field(ENTRY_ATTRIBUTES, attributes)
            update(_field(UPDATE_DIRECTORY, folder.encode()) + _field(UPDATE_ENTRY, entry))


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | LENGTH_DELIMITED) + _number(len(content)) + content


def _number(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


def _content(number: int, message: bytes) -> bytes:
    """Return the content of a message's only field."""
    assert message[0] == number << 3 | LENGTH_DELIMITED
    start = 1
    while message[start] & 0x80:
        start += 1
    return message[start + 1 :]
