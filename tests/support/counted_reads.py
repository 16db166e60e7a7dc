"""Counts what reading tables costs: statements for the catalog's database, metadata files and manifests.

with counted_reads() as reads:
    poller.step()
assert (reads.metadata, reads.manifests) == ([], [])
assert reads.of_catalog == 1
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import sqlalchemy as sa


@dataclass
class Reads:
    """What was read.

    :ivar metadata: the locations of metadata files, and ``manifests`` those of manifests; one entry for each read.
    :ivar statements: each with the engine's database.
    """

    metadata: list[str] = field(default_factory=list)
    manifests: list[str] = field(default_factory=list)
    statements: list[tuple[str | None, str]] = field(default_factory=list)

    @property
    def of_catalog(self) -> list[str]:
        """The statements about the catalog's tables."""
        return [statement for _, statement in self.statements if "iceberg_tables" in statement]

    @property
    def transactions(self) -> int:
        """How many transactions of several statements the store began; a read is a single statement without one."""
        return sum(statement.startswith("BEGIN") for statement in self.of_store)

    @property
    def of_store(self) -> list[str]:
        return [statement for _, statement in self.statements if "iceberg_" not in statement]


@contextmanager
def counted_reads(of: sa.Engine | None = None) -> Iterator[Reads]:
    """Count in the whole process, as long as the block lasts; everything is read as it always is.

    :param of: count only the statements for its database; a thread that another test left behind may have its own.
    """
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.serializers import FromInputFile

    from airflow_snowpack.iceberg.avro_columns import log as columns_read

    reads = Reads()
    read_metadata, read_manifest = FromInputFile.table_metadata, ManifestFile.fetch_manifest_entry

    def metadata(input_file: Any, *rest: Any) -> Any:
        reads.metadata.append(input_file.location)
        return read_metadata(input_file, *rest)

    def manifest(self: ManifestFile, *rest: Any, **named: Any) -> Any:
        reads.manifests.append(self.manifest_path)
        return read_manifest(self, *rest, **named)

    def columns(record: logging.LogRecord) -> bool:
        reads.manifests.append(record.args[0])  # type: ignore[index, arg-type]
        return False

    def statement(conn: sa.Connection, _cursor: Any, text: str, *_: Any) -> None:
        if of is None or conn.engine.url.database == of.url.database:
            reads.statements.append((conn.engine.url.database, text))

    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    level = columns_read.level
    columns_read.setLevel(logging.DEBUG)
    columns_read.addFilter(columns)
    assert columns_read.isEnabledFor(logging.DEBUG)
    try:
        with (
            mock.patch.object(FromInputFile, "table_metadata", staticmethod(metadata)),
            mock.patch.object(ManifestFile, "fetch_manifest_entry", manifest),
        ):
            yield reads
    finally:
        columns_read.removeFilter(columns)
        columns_read.setLevel(level)
        sa.event.remove(sa.Engine, "before_cursor_execute", statement)
