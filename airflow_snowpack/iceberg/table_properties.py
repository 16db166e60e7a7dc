"""Reads Iceberg's table properties, by which a table's owner sets retention, file sizes and the like.

    >>> value_of({"history.expire.min-snapshots-to-keep": "50"}, MIN_SNAPSHOTS)
    50
    >>> value_of({"history.expire.min-snapshots-to-keep": "many"}, MIN_SNAPSHOTS)
    3
    >>> problem_of({"history.expire.min-snapshots-to-keep": "many"}, MIN_SNAPSHOTS)
    'it must be a whole number from 1 to 2147483647'

The invariant: a property may have any text, so reading one never raises. An unusable value has a problem, and the default
applies; but a table whose retention cannot be read keeps all of its snapshots, and Iceberg itself refuses to expire them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

GC_ENABLED = "gc.enabled"
NESSIE = "nessie.is-nessie-catalog"
"""What a Nessie catalog answers to each client. Other branches than the one of this catalog may need the files of a table."""
MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
RETENTION = (MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, MAX_REF_AGE)
FILE_TARGET, DELETE_TARGET = "write.target-file-size-bytes", "write.delete.target-file-size-bytes"
MANIFEST_TARGET = "commit.manifest.target-size-bytes"
MANIFEST_MERGE, MERGED_FROM = "commit.manifest-merge.enabled", "commit.manifest.min-count-to-merge"
DELETE_GRANULARITY, DISTRIBUTION_MODE = "write.delete.granularity", "write.distribution-mode"
SORT_ORDER = "sort-order"
"""Spark's reserved name for the table's sort order, which is not a property in its metadata."""
OWNER = "owner"
"""Spark's name for the owner of a table."""
INTERIM, STORE, TIME_ZONES = "snowpack.interim", "snowpack.store", "snowpack.time-zones"
"""The marks of an interim table: that it is one, the id of its store, and the time zones of its columns as JSON."""

INT, LONG = 2**31 - 1, 2**63 - 1
LARGEST_TARGET = 2**62
"""Iceberg derives the largest good size, 180 % of the target, which must be below :data:`LONG`."""
LONGEST_AGE = timedelta(days=36_500)
"""No snapshot is older: any longer age means the same."""
DEFAULTS: Mapping[str, Any] = {
    MAX_SNAPSHOT_AGE: timedelta(days=5) // timedelta(milliseconds=1),
    MIN_SNAPSHOTS: 3,
    FILE_TARGET: 512 * 1024**2,
    DELETE_TARGET: 64 * 1024**2,
    MANIFEST_TARGET: 8 * 1024**2,
    MERGED_FROM: 100,
    DELETE_GRANULARITY: "file",
}
"""The values without the property: Iceberg's defaults for Spark, but three snapshots are kept, not one."""
NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def is_number(text: str, most: int = LONG) -> bool:
    """Return whether Java reads the text as a whole number of a type with this largest value."""
    return NUMBER.fullmatch(text) is not None and -most - 1 <= int(text) <= most


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not is_number(text) or not least <= int(text) <= most:
            raise ValueError(f"it must be a whole number from {least} to {most}")
        return int(text)

    return read


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return text.lower()

    return read


READERS: Mapping[str, Callable[[str], Any]] = {
    GC_ENABLED: _one_of("true", "false"),
    MAX_SNAPSHOT_AGE: _whole(0, LONG),
    MIN_SNAPSHOTS: _whole(1, INT),
    MAX_REF_AGE: _whole(0, LONG),
    FILE_TARGET: _whole(2, LARGEST_TARGET),
    DELETE_TARGET: _whole(2, LARGEST_TARGET),
    MANIFEST_TARGET: _whole(1, LONG),
    MANIFEST_MERGE: _one_of("true", "false"),
    MERGED_FROM: _whole(0, INT),
    DELETE_GRANULARITY: _one_of("file", "partition"),
    DISTRIBUTION_MODE: _one_of("none", "hash", "range"),
}


def value_of(properties: Mapping[str, str], name: str) -> Any:
    """Return the value of a property; its default, if any, if the table does not set it or it cannot be used."""
    try:
        return READERS[name](str(properties[name]))
    except (KeyError, ValueError):
        return DEFAULTS.get(name)


def age_of(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=min(milliseconds, LONGEST_AGE // timedelta(milliseconds=1)))


def problem_of(properties: Mapping[str, str], name: str) -> str | None:
    """Return why a property cannot be used, as part of a sentence; ``None`` if it can, or is not set."""
    if name not in properties:
        return None
    try:
        READERS[name](str(properties[name]))
    except ValueError as error:
        return str(error)
    return None


def allows_deletes(properties: Mapping[str, str]) -> bool:
    """Return whether Iceberg deletes files of the table. As in Iceberg, anything but "true" is "false"."""
    return properties.get(NESSIE) != "true" and str(properties.get(GC_ENABLED, "true")).lower() == "true"


def keeps_all_snapshots(properties: Mapping[str, str]) -> bool:
    """Return whether no snapshot of the table expires: it may not lose files, or its retention cannot be read."""
    return not allows_deletes(properties) or any(problem_of(properties, name) for name in RETENTION)


def retention_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that set how long snapshots are kept."""
    return {name: str(properties[name]) for name in RETENTION if name in properties}


def owner_properties(table: Table) -> dict[str, str]:
    """Return the properties of the table, with its sort order, if any, under Spark's name for it, and :data:`NESSIE`."""
    properties, metadata = dict(table.properties), table.metadata
    properties.pop(SORT_ORDER, None)
    if table.catalog.properties.get(NESSIE) == "true":
        properties[NESSIE] = "true"
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)  # some writers leave out the order 0, which means none
    if order is not None and not order.is_unsorted:
        schema = table.schema()
        columns = (schema.find_column_name(field.source_id) or "?" for field in order.fields)
        parts = zip(columns, order.fields, strict=True)
        properties[SORT_ORDER] = ", ".join(f"{name} {field.direction} {field.null_order}" for name, field in parts)
    return properties
