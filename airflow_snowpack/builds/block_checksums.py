"""Checksums inside a shard's file, by which range reads refuse blocks of another attempt in a file of the same size.

    seal_pages(path, seed)                                 # shard.sqlite: each page ends with its checksum
    table = block_table(path, seed)                        # shard.parquet: its footer has the checksums of all blocks
    file.verify(partial(are_sealed, seed)), file.verify(table_check(table, seed))

Each attempt draws the seed of its checksums at random, and the manifest names the winner's. A block of another attempt never
matches, even with the same path, size and keys, and a look-up needs no extra request to detect it.
"""

from __future__ import annotations

import base64
import mmap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import xxhash

PAGE_SIZE = 8192
"""The page size of ``shard.sqlite``."""
RESERVED = 8
"""The bytes at the end of each page that SQLite leaves unused."""
BLOCK = 64 * 1024
"""The size of the blocks that range reads fetch and the table of ``shard.parquet`` lists."""
TABLE_KEY = "snowpack_blocks"
"""The table's metadata key in the footer of ``shard.parquet``."""

BlockCheck = Callable[[int, bytes], bool]
"""Returns whether the block at an offset is what the attempt wrote."""


def seal_pages(path: Path, seed: str) -> None:
    """Write each page's checksum into its reserved bytes in an SQLite file."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        for begin in range(0, len(pages), PAGE_SIZE):
            end = begin + PAGE_SIZE
            pages[end - RESERVED : end] = _digest(pages[begin : end - RESERVED], seed)


def are_sealed(seed: str, _offset: int, block: bytes) -> bool:
    """Return whether each page in a block of an SQLite file ends with its checksum."""
    pages = (block[begin : begin + PAGE_SIZE] for begin in range(0, len(block), PAGE_SIZE))
    return all(page[-RESERVED:] == _digest(page[:-RESERVED], seed) for page in pages)


def block_table(path: Path, seed: str) -> str:
    """Return the seed, a file's current size in bytes, and the checksums of its blocks; the last block may be shorter."""
    digests = bytearray()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digests += _digest(block, seed)
        return f"{seed}:{file.tell()}:{base64.b64encode(digests).decode()}"


def table_check(table: bytes, seed: str) -> BlockCheck | None:
    """Return the check of a file's blocks by the table in its footer; ``None`` if the table has another seed."""
    found, _, rest = table.decode("ascii", "replace").partition(":")
    end, _, digests = rest.partition(":")
    return partial(_is_listed, seed, int(end), base64.b64decode(digests)) if found == seed else None


def _is_listed(seed: str, end: int, digests: bytes, offset: int, block: bytes) -> bool:
    """Check the part of a block that the table covers; the footer follows."""
    at = offset // BLOCK * RESERVED
    return offset >= end or _digest(block[: end - offset], seed) == digests[at : at + RESERVED]


def _digest(data: bytes, seed: str) -> bytes:
    return xxhash.xxh3_64_digest(data, seed=int(seed, 16))
