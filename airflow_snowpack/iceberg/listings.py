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
    :param folders: those of a table in another format, in which all files are its own; empty for Iceberg's.
    """

    metadata_location: str | None = None
    is_view: bool = False
    folders: tuple[str, ...] = ()


@runtime_checkable
class ListsEverything(Protocol):
    """A catalog that lists all that it has with its locations, as the Hive Metastore and Glue do."""

    def entries(self) -> Iterator[tuple[Identifier, Listed]]:
        """Yield tables of any format and Iceberg's views, but not views of other engines, which have no files."""

    def metadata_location_of(self, identifier: Identifier) -> str | None:
        """Return the location of the table's metadata without reading it; ``None`` if it is not Iceberg's.

        :raises NoSuchTableError: there is no such table.
        """


def listed(parameters: Mapping[str, str] | None, location: str | None, serde: Mapping[str, str] | None) -> Listed | None:
    """Return what a metastore's table is by its parameters; ``None`` if it has no files.

    :param location: of its storage descriptor.
    :param serde: the parameters of its SerDe. Spark writes the path of a table that Hive cannot read there, and a placeholder as
        its location.
    """
    parameters = parameters or {}
    kind, metadata_location = parameters.get(TABLE_TYPE, "").lower(), parameters.get(METADATA_LOCATION)
    if kind in (ICEBERG_TABLE, ICEBERG_VIEW) and metadata_location:
        return Listed(metadata_location, kind == ICEBERG_VIEW)
    folders = dict.fromkeys(each for each in (location, (serde or {}).get("path")) if each)
    return Listed(folders=tuple(folders)) if folders else None
