"""Errors of table names, tables and the catalog."""

from __future__ import annotations

from airflow_snowpack.errors import Kind, SnowpackError


class InvalidTableName(SnowpackError, kind=Kind.INVALID):
    """Invalid table name."""

    def __init__(self, name: str, level: str | None) -> None:
        culprit = f", because of {level[:60]!r}" if level is not None else ""
        super().__init__(
            f"{name[:120]!r} is not a table name{culprit}. Give database.table (255 characters at most), where each level starts "
            "with a letter or an underscore and goes on with letters, digits, underscores and hyphens."
        )


class InvalidCatalogName(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid catalog name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name[:120]!r} is not a catalog name. Give one word that starts with a letter or an underscore and goes on with "
            "letters, digits, underscores and hyphens, such as 'lake'."
        )


class TableNotFound(SnowpackError, kind=Kind.NOT_FOUND):
    """Table not found."""

    def __init__(self, table: str, catalog: str, known: tuple[str, ...] = ()) -> None:
        hint = f" Its database has: {', '.join(known[:10])}." if known else ""
        super().__init__(
            f"The catalog {catalog!r} has no table {table!r}.{hint} Check the name, or the catalog that this runs against."
        )


class TableUnreadable(SnowpackError, kind=Kind.UNAVAILABLE):
    """The table's metadata cannot be read."""

    def __init__(
        self,
        table: str,
        cause: Exception,
        advice: str = "Check that the storage is reachable with the catalog's settings, and that the table's files have not been "
        "deleted.",
    ) -> None:
        super().__init__(
            f"The metadata of table {table!r} cannot be read: {type(cause).__name__}: {_first_line(cause)}. {advice}"
        )


class WrongCatalog(SnowpackError, kind=Kind.REFUSED):
    """The table is in another catalog."""

    def __init__(self, table: str, catalog: str, catalog_id: str, reached: str) -> None:
        super().__init__(
            f"The table {table!r} is in the catalog {catalog_label(catalog, catalog_id)}, and this process reaches the catalog "
            f"{catalog_label(catalog, reached)}. Use the catalog connection that the job was submitted "
            "with (catalog_conn_id, --catalog-conn-id)."
        )


class LocationOutsideTable(SnowpackError, kind=Kind.INVALID):
    """The location is not inside the table's location."""

    def __init__(self, location: str, table: str, table_location: str) -> None:
        super().__init__(
            f"The location {location[:200]!r} is not inside the location of table {table!r}, {table_location!r}. Files elsewhere "
            "may belong to other tables: leave the location out, or give a folder below the table's own."
        )


class CatalogLibraryMissing(SnowpackError, kind=Kind.MISCONFIGURED):
    """The library of the catalog is not installed."""

    def __init__(self, catalog: str, extra: str, module: str) -> None:
        super().__init__(
            f"The Iceberg catalog {catalog!r} is a {extra} catalog, and the module {module!r} cannot be imported. Install it "
            f"where this runs: pip install 'airflow-snowpack[{extra}]'."
        )


class CatalogUnreachable(SnowpackError, kind=Kind.UNAVAILABLE):
    """The catalog does not answer."""

    def __init__(self, catalog: str, cause: Exception) -> None:
        super().__init__(
            f"The Iceberg catalog {catalog!r} cannot be reached: {type(cause).__name__}: {_first_line(cause)}. "
            "Check the connection that the catalog hook uses, and that the catalog service is up."
        )


class WarehouseUnusable(SnowpackError, kind=Kind.MISCONFIGURED):
    """The warehouse cannot be written and read."""

    def __init__(self, warehouse: str, cause: Exception) -> None:
        super().__init__(
            f"The catalog answers, but a file in its warehouse {warehouse!r} cannot be written and read: {type(cause).__name__}: "
            f"{_first_line(cause)}. Check the storage's keys, region and endpoint in the connection, and what the keys permit."
        )


def catalog_label(name: str, catalog_id: str) -> str:
    """Return a catalog's name and identity for people, such as ``lake (3f2a91bc04de)``."""
    return f"{name} ({catalog_id or 'not recorded'})"


def _first_line(cause: Exception) -> str:
    """Return the first line of an error's text; drivers add the statement and a link below it."""
    from airflow_snowpack.redaction import redacted  # not needed to parse a DAG file

    return redacted((str(cause).splitlines() or [""])[0].rstrip("."))


class QuarantineNotPossible(SnowpackError, kind=Kind.REFUSED):
    """Files of this storage cannot be kept for a restore without a copy."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(
            f"Files below {location!r} cannot be moved to quarantine at no cost: {problem}. Nothing was deleted. Set "
            "quarantine_copy to copy each file, or replace quarantine by approve_above_files=0 to approve the list first."
        )
