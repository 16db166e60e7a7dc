"""Reads a few columns of an Avro file of Iceberg, such as a manifest, and skips the others without creating objects.

    reader = AvroColumns((STATUS, RECORDS, BYTES))
    for status, records, bytes_ in reader.rows(read_blocks(io.new_input(manifest.manifest_path))):
        ...

PyIceberg creates an object for every value of an entry, including the statistics of each column. This compiles the schema of a
file into one Python function (:mod:`airflow_snowpack.iceberg.avro_source`), and skips the ends of entries by patterns
(:mod:`airflow_snowpack.iceberg.avro_tails`). Columns are identified by their Iceberg field ids, wherever they are in the record;
a column that the file lacks is ``None``. The invariant: what is not understood is an error, never a wrong number, and a damaged
file never makes it read other memory, as PyIceberg's compiled decoder does beyond the end of its buffer. Every length and count
is therefore compared with the size of the block before it is used, and zeros follow the block, in which an overrun ends.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.avro_source import source_of
from airflow_snowpack.iceberg.avro_tails import FEWEST_ROWS, AvroTail
from airflow_snowpack.iceberg.avro_values import as_uuid, decimal, double, number, single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.io import InputFile

    Rows = Callable[[BinaryDecoder, Callable[[int], bytes], int, int, bytes, AvroTail | None], Iterator[tuple[Any, ...]]]

log = logging.getLogger(__name__)

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
CODEC, SCHEMA = "avro.codec", "avro.schema"
ZEROS = bytes(16)


@dataclass
class AvroBlocks:
    """A decompressed Avro file: the number of rows of each block, and its bytes."""

    location: str
    schema: str
    blocks: deque[tuple[int, bytes]]


def read_blocks(file: InputFile) -> AvroBlocks:
    """Read an Avro file. Threads run this concurrently: it hardly needs the interpreter.

    :raises OSError: the file cannot be opened.
    :raises ValueError: it is not an Avro file.
    """
    from pyiceberg.avro.decoder import new_decoder

    log.debug("Reading %s", file.location)
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
        except Exception as error:  # each codec raises its own errors
            raise _invalid(location, error) from error
        if take(SYNC_BYTES) != sync:
            raise _invalid(location, "a block does not end with the file's sync marker")
    return AvroBlocks(location, header[SCHEMA], blocks)


def _taking(decoder: BinaryDecoder, length: int) -> Callable[[int], bytes]:
    """Return a function that reads this many bytes, and refuses more than the decoder has."""

    def take(size: int) -> bytes:
        if not 0 <= size <= length - decoder.tell():
            raise EOFError("it is cut off")
        return decoder.read(size)

    return take


def _invalid(location: str, reason: object) -> ValueError:
    return ValueError(f"{location} is not a valid Avro file: {reason!r}")


class AvroColumns:
    """Reads these columns of Avro files.

    :param field_ids: Iceberg's field ids, in the order of the values in a row.
    :param required: the ids without which a file is invalid.
    """

    def __init__(self, field_ids: tuple[int, ...], *, required: tuple[int, ...] = ()) -> None:
        self._field_ids = field_ids
        self._required = frozenset(required)

    def rows(self, file: AvroBlocks) -> Iterator[tuple[Any, ...]]:
        """Yield the rows, dropping each block after its rows; raise ``ValueError`` if Iceberg cannot have written the file."""
        from pyiceberg.avro.decoder import new_decoder

        try:
            rows, kinds = _compiled(file.schema, self._field_ids, self._required)
        except Exception as error:  # a schema may be anything
            raise _invalid(file.location, error) from error
        tail = AvroTail(kinds) if kinds and sum(count for count, _ in file.blocks) >= FEWEST_ROWS else None
        try:
            while file.blocks:
                count, block = file.blocks.popleft()
                size = len(block)
                if not 0 <= count <= size:
                    raise IndexError(f"a block has {count} rows")
                # As many zeros as the block has bytes: a read may request that many numbers at once.
                data = block + bytes(size) + ZEROS
                decoder = new_decoder(data)
                yield from rows(decoder, _taking(decoder, size), count, size, data, tail)
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
def _compiled(schema: str, field_ids: tuple[int, ...], required: frozenset[int]) -> tuple[Rows, list[Any]]:
    """Compile a schema; return the types of its tail, too. Manifests of one partition spec have the same schema text."""
    names: dict[str, Any] = {
        "decimal": decimal,
        "as_uuid": as_uuid,
        "number": number,
        "single": single,
        "double": double,
        "check_negative": _check_negative,
        "cut_off": _cut_off,
    }
    source, kinds = source_of(schema, field_ids, required)
    exec(source, names)
    return names["rows"], kinds


def _check_negative(count: int) -> None:
    """Refuse more items than the block has bytes. ``read_ints`` returns a negative count as an unsigned number."""
    if 0 < count < 2**63:
        raise IndexError(f"an array has {count} items")


def _cut_off() -> None:
    raise EOFError("it is cut off")
