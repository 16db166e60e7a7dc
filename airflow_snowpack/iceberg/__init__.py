"""The tables: their names, their catalogs, their health read from metadata.

Importing this room is cheap: PyIceberg and PyArrow load when a catalog or a table is first used.
"""

from airflow_snowpack.iceberg.catalog import CatalogConfig, CatalogKind, load_table
from airflow_snowpack.iceberg.errors import (
    CatalogUnreachable,
    InvalidCatalogName,
    InvalidTableName,
    TableNotFound,
    TableUnreadable,
)
from airflow_snowpack.iceberg.names import TableName

__all__ = [
    "CatalogConfig",
    "CatalogKind",
    "CatalogUnreachable",
    "InvalidCatalogName",
    "InvalidTableName",
    "TableName",
    "TableNotFound",
    "TableUnreadable",
    "load_table",
]
