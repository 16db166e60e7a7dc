"""Reads a few columns of an Avro file of Iceberg's, such as a manifest, and skips the others without making objects of them.

    reader = AvroColumns((STATUS, RECORDS, BYTES))
    for status, records, bytes_ in reader.rows(io.new_input(manifest.manifest_path)):
        ...

PyIceberg makes an object of every value of an entry, statistics of each column included, which takes about 140 µs for a file with
ten columns; this takes about 5 µs. Columns are named by their Iceberg field ids, wherever in the record they are. A column that
the file does not have is ``None``. The invariant: what is not understood is an error, never a wrong number.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import lru_cache
from math import nan
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.io import InputFile

    Read = Callable[[BinaryDecoder], Any]
    Step = tuple[Read, int | None]
    """What to do with the next field, and where its value goes; ``None`` for a field that is skipped."""

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
CODEC, SCHEMA = "avro.codec", "avro.schema"
INTEGERS = ("int", "long")
TEXTS = ("string", "bytes")
METHODS = {
    **dict.fromkeys(INTEGERS, "int"),
    **{name: name for name in ("boolean", "float", "double", "bytes")},
    "string": "utf8",
}
"""How PyIceberg's decoders name Avro's types."""


class AvroColumns:
    """Reads these columns of Avro files.

    :param field_ids: Iceberg's field ids, in the order in which rows have the values.
    """

    def __init__(self, field_ids: tuple[int, ...]) -> None:
        self._field_ids = field_ids

    def rows(self, file: InputFile) -> Iterator[list[Any]]:
        """Return the rows of a file, one after the other; one block of it is decoded at a time.

        :raises OSError: the file cannot be opened.
        :raises ValueError: it is not an Avro file that Iceberg could have written.
        """
        from pyiceberg.avro.decoder import new_decoder

        with file.open() as stream:
            content = stream.read()
        try:
            yield from self._decoded(new_decoder(content), len(content))
        except (EOFError, KeyError, IndexError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{file.location} is not a valid Avro file: {error!r}") from error

    def _decoded(self, decoder: BinaryDecoder, length: int) -> Iterator[list[Any]]:
        from pyiceberg.avro.codecs import KNOWN_CODECS
        from pyiceberg.avro.decoder import new_decoder

        if decoder.read(len(MAGIC)) != MAGIC:
            raise ValueError("It does not begin with Avro's magic bytes")
        header = _header(decoder)
        sync = decoder.read(SYNC_BYTES)
        steps = _steps(header[SCHEMA], self._field_ids)
        codec = KNOWN_CODECS[header.get(CODEC, "null")]  # type: ignore[index]  # a codec that is not known is a KeyError
        width = len(self._field_ids)
        while decoder.tell() < length:
            count, block = decoder.read_int(), decoder.read_bytes()
            entries = new_decoder(block if codec is None else codec.decompress(block))
            for _ in range(count):
                row: list[Any] = [None] * width
                for run, place in steps:
                    if place is None:
                        run(entries)
                    else:
                        row[place] = run(entries)
                yield row
            if decoder.read(SYNC_BYTES) != sync:
                raise ValueError("A block does not end with the file's sync marker")


def _header(decoder: BinaryDecoder) -> dict[str, str]:
    header = {}
    while count := decoder.read_int():
        if count < 0:
            decoder.read_int()
        for _ in range(abs(count)):
            key = decoder.read_utf8()
            header[key] = decoder.read_bytes().decode("utf-8", "replace")
    return header


@lru_cache(maxsize=64)
def _steps(schema: str, field_ids: tuple[int, ...]) -> tuple[Step, ...]:
    """Compile a schema: manifests of one partition spec have the same text."""
    return tuple(_record_steps(json.loads(schema), {field_id: place for place, field_id in enumerate(field_ids)}))


def _record_steps(record: dict[str, Any], places: dict[int, int]) -> Iterator[Step]:
    for field in record["fields"]:
        kind, field_id = field["type"], field.get("field-id")
        if field_id in places:
            yield _reader(kind), places[field_id]
        elif isinstance(kind, dict) and kind["type"] == "record":
            yield from _record_steps(kind, places)
        else:
            yield _skipper(kind), None


def _reader(kind: Any) -> Read:
    """Return a function that reads a value of this Avro type."""
    if isinstance(kind, list):
        return _union([_reader(each) for each in kind])
    name = kind if isinstance(kind, str) else kind["type"]
    logical = {} if isinstance(kind, str) else kind
    match logical.get("logicalType"), name:
        case "decimal", _:
            read, scale = _bytes_of(name, logical), logical.get("scale", 0)
            return lambda decoder: Decimal(int.from_bytes(read(decoder), "big", signed=True)).scaleb(-scale)
        case "uuid", "fixed":
            return lambda decoder: UUID(bytes=decoder.read(16))
        case _, "array":
            return _array_reader(kind)
        case _, "record":
            readers = [_reader(field["type"]) for field in kind["fields"]]
            return lambda decoder: tuple([read(decoder) for read in readers])
        case _, "fixed":
            return _bytes_of(name, logical)
        case _, ("float" | "double"):
            return _float_reader(name)
    return _method("read", name)


def _union(branches: list[Read]) -> Read:
    """Return a function for a union; the branch comes first."""

    def run(decoder: BinaryDecoder) -> Any:
        return branches[decoder.read_int()](decoder)

    return run


def _method(verb: str, name: str) -> Read:
    """Return the decoder's own method for a primitive type, with no function around it: each field of each row calls it."""
    from pyiceberg.avro.decoder import new_decoder

    if name == "null":
        return lambda decoder: None
    method: Read = getattr(type(new_decoder(b"")), f"{verb}_{METHODS[name]}")
    return method


def _bytes_of(name: str, kind: dict[str, Any]) -> Read:
    if name == "fixed":
        size = int(kind["size"])
        return lambda decoder: decoder.read(size)
    return lambda decoder: decoder.read_bytes()


def _float_reader(name: str) -> Read:
    """Return one object for every NaN, which equals itself in a tuple: it is part of a key."""

    def read(decoder: BinaryDecoder) -> float:
        value = decoder.read_float() if name == "float" else decoder.read_double()
        return value if value == value else nan

    return read


def _array_reader(kind: dict[str, Any]) -> Read:
    """Return a reader of arrays; a map with whole numbers as keys is an array of pairs in Avro."""
    read = _reader(kind["items"])

    def read_all(decoder: BinaryDecoder) -> list[Any]:
        values = []
        while count := decoder.read_int():
            if count < 0:
                decoder.read_int()
            values += [read(decoder) for _ in range(abs(count))]
        return values

    return read_all


def _skipper(kind: Any) -> Read:
    """Return a function that passes over a value of this Avro type."""
    if isinstance(kind, list):
        return _union([_skipper(each) for each in kind])
    name = kind if isinstance(kind, str) else kind["type"]
    match name:
        case "fixed":
            size = int(kind["size"])
            return lambda decoder: decoder.skip(size)
        case "array":
            return _array_skipper(_items_skipper(kind["items"]))
        case "record":
            skips = [_skipper(field["type"]) for field in kind["fields"]]

            def skip_fields(decoder: BinaryDecoder) -> None:
                for skip in skips:
                    skip(decoder)

            return skip_fields
    return _method("skip", name)


def _array_skipper(skip_items: Callable[[BinaryDecoder, int], Any]) -> Read:
    def skip(decoder: BinaryDecoder) -> None:
        while count := decoder.read_int():
            if count < 0:  # the size of the block in bytes follows
                decoder.skip(decoder.read_int())
            else:
                skip_items(decoder, count)

    return skip


def _items_skipper(kind: Any) -> Callable[[BinaryDecoder, int], Any]:
    """Return a function that passes over so many items; the decoder does it at once for numbers and for statistics of columns."""
    if kind in INTEGERS:
        return lambda decoder, count: decoder.read_ints(count)
    types = [field["type"] for field in kind["fields"]] if isinstance(kind, dict) and kind["type"] == "record" else []
    if len(types) == 2 and types[0] in INTEGERS and types[1] in INTEGERS:
        return lambda decoder, count: decoder.read_ints(2 * count)
    if len(types) == 2 and types[0] in INTEGERS and types[1] in TEXTS:
        return lambda decoder, count: decoder.read_int_bytes_dict(count, {})
    skip = _skipper(kind)

    def skip_each(decoder: BinaryDecoder, count: int) -> None:
        for _ in range(count):
            skip(decoder)

    return skip_each
