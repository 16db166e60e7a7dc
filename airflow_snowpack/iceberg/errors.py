"""What can be wrong with a table before any work starts."""

from __future__ import annotations

from airflow_snowpack.errors import SnowpackError


class InvalidTableName(SnowpackError):
    """A name that is refused before any SQL is built from it."""

    def __init__(self, name: str, level: str | None) -> None:
        culprit = f" Its level {level[:60]!r} does not." if level is not None else ""
        super().__init__(
            f"{name[:120]!r} is not a table name.{culprit} Give database.table (255 characters at most), where each level starts with "
            "a letter or an underscore and goes on with letters, digits, underscores and hyphens."
        )


class TableNotFound(SnowpackError):
    """The catalog answered, and the table is not in it."""

    def __init__(self, table: str, catalog: str, known: tuple[str, ...] = ()) -> None:
        hint = f" Its database has: {', '.join(known[:10])}." if known else ""
        super().__init__(
            f"The catalog {catalog!r} has no table {table!r}.{hint} Check the name, or the catalog that this runs against."
        )


class CatalogUnreachable(SnowpackError):
    """The catalog did not answer."""

    def __init__(self, catalog: str, cause: Exception) -> None:
        super().__init__(
            f"The Iceberg catalog {catalog!r} cannot be reached: {type(cause).__name__}: {cause}. "
            "Check the connection that the catalog hook uses, and that the catalog service is up."
        )
