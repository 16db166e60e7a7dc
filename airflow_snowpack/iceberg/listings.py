"""What a catalog lists without loading its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.typedef import Identifier

TABLE_TYPE, METADATA_LOCATION = "table_type", "metadata_location"
"""Parameters by which the Hive Metastore and Glue describe Iceberg's tables and views."""
ICEBERG_TABLE, ICEBERG_VIEW = "iceberg", "iceberg-view"


class Listed(NamedTuple):
    """A table or a view as a catalog lists it.

    :param metadata_location: ``None`` for a catalog that does not list it.
    :param folder: the location of a table in another format, all of whose files are its own; ``None`` for Iceberg's.
    """

    metadata_location: str | None = None
    is_view: bool = False
    folder: str | None = None


@runtime_checkable
class ListsEverything(Protocol):
    """A catalog that lists all that it has with its locations, as the Hive Metastore and Glue do."""

    def entries(self) -> Iterator[tuple[Identifier, Listed]]:
        """Yield tables of any format and Iceberg's views, but not views of other engines, which have no files."""

    def metadata_location_of(self, identifier: Identifier) -> str | None:
        """Return the location of the table's metadata without reading it; ``None`` if it is not Iceberg's.

        :raises NoSuchTableError: there is no such table.
        """


def listed(parameters: Mapping[str, str], location: str | None) -> Listed | None:
    """Return what a metastore's table is by its parameters; ``None`` if it has no files."""
    kind, metadata_location = parameters.get(TABLE_TYPE, "").lower(), parameters.get(METADATA_LOCATION)
    if kind in (ICEBERG_TABLE, ICEBERG_VIEW) and metadata_location:
        return Listed(metadata_location, kind == ICEBERG_VIEW)
    return Listed(folder=location) if location else None
