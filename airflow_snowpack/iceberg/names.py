"""Names of tables: validated once here, quoted wherever they meet SQL.

    >>> name = TableName.parse("analytics.page_views", catalog="lake")
    >>> name.database, name.table, str(name)
    ('analytics', 'page_views', 'lake.analytics.page_views')
    >>> name.quoted
    '`lake`.`analytics`.`page_views`'

The invariant: each level of a :class:`TableName` matches ``[A-Za-z_][A-Za-z0-9_-]*``, so none can escape from quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_snowpack.iceberg.errors import InvalidTableName

LEVEL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
MAX_LENGTH = 255


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of one catalog.

    :param catalog: the catalog's name, one level.
    :param database: the namespace, one level or several joined by dots.
    :param table: the table's own name, one level.
    :param catalog_id: the catalog's identity, whatever its name: :attr:`CatalogConfig.catalog_id`; empty if there is only one.
    :raises InvalidTableName: a level is empty, too long or has a character that is not allowed.
    """

    catalog: str
    database: str
    table: str
    catalog_id: str = ""

    def __post_init__(self) -> None:
        for level in (self.catalog, *self.database.split("."), self.table):
            if not LEVEL.fullmatch(level):
                raise InvalidTableName(f"{self.database}.{self.table}", level)
        if len(str(self)) > MAX_LENGTH:
            raise InvalidTableName(f"{self.database}.{self.table}", None)

    @classmethod
    def parse(cls, text: str, *, catalog: str, catalog_id: str = "") -> TableName:
        """Parse ``database.table``, or more levels; the last one is the table.

        :raises InvalidTableName: there are fewer than two levels, or one of them is not allowed.
        """
        database, dot, table = text.rpartition(".")
        if not dot:
            raise InvalidTableName(text, None)
        return cls(catalog=catalog, database=database, table=table, catalog_id=catalog_id)

    @property
    def identifier(self) -> tuple[str, ...]:
        """The levels below the catalog, as PyIceberg takes them."""
        return (*self.database.split("."), self.table)

    @property
    def dotted(self) -> str:
        """``database.table``, without the catalog."""
        return f"{self.database}.{self.table}"

    @property
    def quoted(self) -> str:
        """The whole name for Spark SQL, each level in backticks."""
        return ".".join(f"`{level}`" for level in (self.catalog, *self.identifier))

    @property
    def asset_uri(self) -> str:
        """``iceberg://catalog/database/table``, the Airflow asset of this table."""
        return "iceberg://" + "/".join((self.catalog, *self.identifier))

    @property
    def lock_key(self) -> str:
        """The key of a lock on this table: names of one catalog share it, and two catalogs with one name do not."""
        return f"{self.catalog_id}:{self.dotted}" if self.catalog_id else str(self)

    def __str__(self) -> str:
        return ".".join((self.catalog, self.database, self.table))
