"""Reads a few columns of an Avro file of Iceberg's, such as a manifest, and skips the others without making objects of them.

    reader = AvroColumns((STATUS, RECORDS, BYTES))
    for status, records, bytes_ in reader.rows(read_blocks(io.new_input(manifest.manifest_path))):
        ...

PyIceberg makes an object of every value of an entry, statistics of each column included. This compiles the schema of a file into
one Python function that calls PyIceberg's decoder, as ``dataclasses`` compiles methods: an entry has about fifty values, and
calling a function for each of them costs more than decoding it. Columns are named by their Iceberg field ids, wherever in the
record they are. A column that the file does not have is ``None``. The invariant: what is not understood is an error, never a
wrong number; and no damage makes it read other memory, which PyIceberg's compiled decoder does beyond the end of its buffer. So
every length and count is compared with the size of the block before it is used, and zeros follow the block: whatever begins in it
ends in them.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import nan
from struct import Struct
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.io import InputFile

    Rows = Callable[[BinaryDecoder, Callable[[int], bytes], int, int], Iterator[tuple[Any, ...]]]

STRUCT_FLOAT, STRUCT_DOUBLE = Struct("<f"), Struct("<d")
MAGIC = b"Obj\x01"
SYNC_BYTES = 16
CODEC, SCHEMA = "avro.codec", "avro.schema"
INTEGERS = ("int", "long")
LENGTHS = {"boolean": 1, "float": 4, "double": 8}
"""How many bytes a value has."""
ZEROS = bytes(16)
READ = {
    **dict.fromkeys(INTEGERS, "read_int()"),
    "boolean": "take(1) != b'\\0'",
    "float": "number(single(take(4)))",
    "double": "number(double(take(8)))",
    "bytes": "take(read_int())",
    "string": "take(read_int()).decode()",
}
"""What reads a value of a type."""


@dataclass
class AvroBlocks:
    """An Avro file, decompressed.

    :param blocks: how many rows each block has, and its bytes.
    """

    location: str
    schema: str
    blocks: deque[tuple[int, bytes]]


def read_blocks(file: InputFile) -> AvroBlocks:
    """Read an Avro file. Threads can do that at the same time: it hardly needs the interpreter.

    :raises OSError: the file cannot be opened.
    :raises ValueError: it is not an Avro file.
    """
    from pyiceberg.avro.decoder import new_decoder

    with file.open() as stream:
        content = stream.read()
    try:
        return _read_blocks(file.location, new_decoder(content + ZEROS), len(content))
    except (EOFError, KeyError) as error:
        raise _invalid(file.location, error) from error


def _read_blocks(location: str, decoder: BinaryDecoder, length: int) -> AvroBlocks:
    from pyiceberg.avro.codecs import KNOWN_CODECS

    take = _taking(decoder, length)
    if take(len(MAGIC)) != MAGIC:
        raise _invalid(location, "it does not begin with Avro's magic bytes")
    header, sync = _header(decoder, take), take(SYNC_BYTES)
    codec = KNOWN_CODECS[header.get(CODEC, "null")]  # type: ignore[index]  # a codec that is not known is a KeyError
    blocks = deque[tuple[int, bytes]]()
    while decoder.tell() < length:
        count, block = decoder.read_int(), take(decoder.read_int())
        try:
            blocks.append((count, block if codec is None else codec.decompress(block)))
        except Exception as error:  # each codec has errors of its own
            raise _invalid(location, error) from error
        if take(SYNC_BYTES) != sync:
            raise _invalid(location, "a block does not end with the file's sync marker")
    return AvroBlocks(location, header[SCHEMA], blocks)


def _taking(decoder: BinaryDecoder, length: int) -> Callable[[int], bytes]:
    """Return a function that reads so many bytes if they are there."""

    def take(size: int) -> bytes:
        if not 0 <= size <= length - decoder.tell():
            raise EOFError("it is cut off")
        return decoder.read(size)

    return take


def _invalid(location: str, reason: object) -> ValueError:
    return ValueError(f"{location} is not a valid Avro file: {reason!r}")


class AvroColumns:
    """Reads these columns of Avro files.

    :param field_ids: Iceberg's field ids, in the order in which rows have the values.
    :param required: those of them without which a file is invalid.
    """

    def __init__(self, field_ids: tuple[int, ...], *, required: tuple[int, ...] = ()) -> None:
        self._field_ids = field_ids
        self._required = frozenset(required)

    def rows(self, file: AvroBlocks) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a file, one after the other. Each block is dropped once its rows were read.

        :raises ValueError: it is not a file that Iceberg could have written.
        """
        from pyiceberg.avro.decoder import new_decoder

        try:
            rows = _compiled(file.schema, self._field_ids, self._required)
        except Exception as error:  # a schema may be anything
            raise _invalid(file.location, error) from error
        try:
            while file.blocks:
                count, block = file.blocks.popleft()
                size = len(block)
                if not 0 <= count <= size:
                    raise IndexError(f"a block has {count} rows")
                # As many zeros as the block has bytes: so many numbers may be read at once.
                decoder = new_decoder(block + bytes(size) + ZEROS)
                yield from rows(decoder, _taking(decoder, size), count, size)
                if decoder.tell() != size:
                    raise EOFError(f"{decoder.tell()} of {size} bytes were read")
        except (ArithmeticError, EOFError, LookupError, UnicodeDecodeError) as error:
            raise _invalid(file.location, error) from error


def _header(decoder: BinaryDecoder, take: Callable[[int], bytes]) -> dict[str, str]:
    header = {}
    while count := decoder.read_int():
        if count < 0:
            decoder.read_int()
        for _ in range(abs(count)):
            key = take(decoder.read_int()).decode("utf-8", "replace")
            header[key] = take(decoder.read_int()).decode("utf-8", "replace")
    return header


@lru_cache(maxsize=64)
def _compiled(schema: str, field_ids: tuple[int, ...], required: frozenset[int]) -> Rows:
    """Compile a schema: manifests of one partition spec have the same text."""
    names: dict[str, Any] = {
        "decimal": _decimal,
        "as_uuid": _as_uuid,
        "number": _number,
        "single": _single,
        "double": _double,
        "check_negative": _check_negative,
        "cut_off": _cut_off,
    }
    exec(source_of(schema, field_ids, required), names)
    rows: Rows = names["rows"]
    return rows


def source_of(schema: str, field_ids: tuple[int, ...], required: Collection[int] = ()) -> str:
    """Return the source of the function ``rows`` that reads files of an Avro schema.

    Nothing of the schema gets into it but the types that are known, and whole numbers.
    """
    compiler = _Compiler({field_id: f"column_{place}" for place, field_id in enumerate(field_ids)}, required)
    return compiler.source(json.loads(schema))


class _Compiler:
    """Writes the source of a function that reads rows.

    :param columns: the variable of each column, by field id.
    """

    def __init__(self, columns: dict[int, str], required: Collection[int]) -> None:
        self._columns = columns
        self._missing = set(required)
        self._fixed: dict[str, Any] = {}
        self._lines: list[str] = []
        self._indent = 2
        self._variables = 0

    def source(self, record: dict[str, Any]) -> str:
        """Return the source for a record of this Avro schema."""
        self._record(record)
        if self._missing:
            raise KeyError(f"it has no field {min(self._missing)}")
        bound = [f"    {name} = decoder.{name}" for name in ("skip", "read_int", "read_ints")]
        empty = [f"        {' = '.join(self._columns.values())} = None"] if self._columns else []
        row = f"({''.join(f'{name}, ' for name in self._columns.values())})"
        begin = ["def rows(decoder, take, count, size):", *bound, "    for _ in range(count):"]
        return "\n".join([*begin, *empty, *self._lines, f"        yield {row}"])

    def _add(self, line: str) -> None:
        self._lines.append("    " * self._indent + line)

    def _new(self) -> str:
        self._variables += 1
        return f"value_{self._variables}"

    def _record(self, record: dict[str, Any]) -> None:
        for field in record["fields"]:
            kind, field_id = field["type"], field.get("field-id")
            column = self._columns.get(field_id)
            if column is not None:
                self._read(kind, column)
                if field_id in self._missing:
                    self._missing.remove(field_id)
                    self._add(f"if {column} is None: raise KeyError('a required field is null')")
            elif _name(kind) == "record":
                self._record(kind)
            else:
                self._skip(kind)

    def _named(self, kind: Any) -> Any:
        """Return the type that a name refers to: Avro defines a fixed type, such as a decimal, once, and names it afterwards."""
        if _name(kind) == "fixed":
            self._fixed[str(kind.get("name"))] = kind
        return kind if not isinstance(kind, str) or kind in READ else self._fixed.get(kind, kind)

    def _branches(self, kinds: list[Any], act: Callable[[Any], None]) -> None:
        """Add the branches of a union; their number comes first. Nothing has to be done for null."""
        branch, word = self._new(), "if"
        self._add(f"{branch} = read_int()")
        for place, kind in enumerate(kinds):
            if kind != "null":
                self._add(f"{word} {branch} == {place}:")
                self._indent += 1
                act(kind)
                self._indent -= 1
                word = "elif"
        null = kinds.index("null") if "null" in kinds else -1
        self._add(f"{word} {branch} != {null}: raise IndexError('a union has no such branch')")

    def _read(self, kind: Any, into: str) -> None:
        """Add what reads a value of this type into a variable, which is ``None`` before."""
        kind = self._named(kind)
        if isinstance(kind, list):
            self._branches(kind, lambda branch: self._read(branch, into))
            return
        match _logical(kind), _name(kind):
            case "decimal", name:
                self._add(f"{into} = decimal({_bytes(name, kind)}, {int(kind.get('scale', 0))})")
            case "uuid", "fixed":
                self._add(f"{into} = as_uuid(take(16))")
            case _, "array":
                self._read_array(kind["items"], into)
            case _, "record":
                values = [self._new() for _ in kind["fields"]]
                for value, field in zip(values, kind["fields"], strict=True):
                    self._add(f"{value} = None")
                    self._read(field["type"], value)
                self._add(f"{into} = ({''.join(f'{value}, ' for value in values)})")
            case _, "fixed":
                self._add(f"{into} = {_bytes('fixed', kind)}")
            case _, name:
                self._add(f"{into} = {READ[name]}")

    def _read_array(self, items: Any, into: str) -> None:
        """Add what reads an array; a map with whole numbers as keys is an array of pairs in Avro."""
        count, item = self._new(), self._new()
        self._add(f"{into} = []")
        self._add(f"while {count} := read_int():")
        self._indent += 1
        self._add(f"if {count} < 0: read_int()  # the size of the block")
        self._add(f"if abs({count}) > size: cut_off()")
        self._add(f"for _ in range(abs({count})):")
        self._indent += 1
        self._add(f"{item} = None")
        self._read(items, item)
        self._add(f"{into}.append({item})")
        self._indent -= 2

    def _skip(self, kind: Any) -> None:
        """Add what passes over a value of this type."""
        kind = self._named(kind)
        if isinstance(kind, list):
            self._branches(kind, self._skip)
            return
        match _name(kind):
            case "fixed":
                self._skip_bytes(int(kind["size"]))
            case "array":
                self._skip_array(kind["items"])
            case "record":
                for field in kind["fields"]:
                    self._skip(field["type"])
            case "bytes" | "string":
                length = self._new()
                self._add(f"{length} = read_int()")
                self._skip_bytes(length)
            case name if name in INTEGERS:
                self._add("read_int()  # not skip_int, which reads beyond the end")
            case name:
                self._add(f"skip({LENGTHS[name]})")

    def _skip_bytes(self, length: int | str) -> None:
        self._add(f"if {length} > size or {length} < 0: cut_off()")
        self._add(f"skip({length})")

    def _skip_array(self, items: Any) -> None:
        """Add what passes over an array; the decoder does it at once for numbers."""
        count, length, width = self._new(), self._new(), _whole_numbers(items)
        self._add(f"{count} = read_int()")
        self._add(f"while {count}:")
        self._indent += 1
        self._add(f"if not 0 < {count} * {width or 1} <= size:")
        self._indent += 1
        self._add(f"check_negative({count})")
        self._add(f"{length} = read_int()")
        self._skip_bytes(length)
        self._add(f"{count} = read_int()")
        self._add("continue")
        self._indent -= 1
        if width:
            # The count of the next block, which ends the array when it is 0, is one more whole number.
            self._add(f"{count} = read_ints({width} * {count} + 1)[-1]")
        else:
            self._add(f"for _ in range({count}):")
            self._indent += 1
            self._skip(items)
            self._indent -= 1
            self._add(f"{count} = read_int()")
        self._indent -= 1


def _whole_numbers(items: Any) -> int:
    """Return how many whole numbers an item consists of; 0 for an item of anything else."""
    kinds = [items] if _name(items) != "record" else [field["type"] for field in items["fields"]]
    return len(kinds) if all(kind in INTEGERS for kind in kinds) else 0


def _name(kind: Any) -> str:
    """Return the name of an Avro type, ``union`` for a union."""
    if isinstance(kind, list):
        return "union"
    return str(kind if isinstance(kind, str) else kind["type"])


def _logical(kind: Any) -> str | None:
    return kind.get("logicalType") if isinstance(kind, dict) else None


def _bytes(name: str, kind: dict[str, Any]) -> str:
    return f"take({int(kind['size'])})" if name == "fixed" else READ["bytes"]


def _decimal(unscaled: bytes, scale: int) -> Decimal:
    sign, digits, _ = Decimal(int.from_bytes(unscaled, "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -scale))  # scaleb rounds to 28 digits, and Iceberg has 38


def _as_uuid(value: bytes) -> UUID:
    return UUID(bytes=value)


def _check_negative(count: int) -> None:
    """Refuse more items than the block has bytes. ``read_ints`` returns a negative count as an unsigned number."""
    if 0 < count < 2**63:
        raise IndexError(f"an array has {count} items")


def _cut_off() -> None:
    raise EOFError("it is cut off")


def _single(four_bytes: bytes) -> float:
    return float(STRUCT_FLOAT.unpack(four_bytes)[0])


def _double(eight_bytes: bytes) -> float:
    """PyIceberg 0.12's compiled decoder rounds doubles to floats."""
    return float(STRUCT_DOUBLE.unpack(eight_bytes)[0])


def _number(value: float) -> float:
    """Return one object for every NaN: partition values are the keys of dictionaries, where only the same NaN is found again."""
    return value if value == value else nan
