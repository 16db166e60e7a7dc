"""The tables: their names, their catalogs, their health read from metadata."""

from airflow_snowpack.iceberg.errors import CatalogUnreachable, InvalidTableName, TableNotFound
from airflow_snowpack.iceberg.names import TableName

__all__ = ["CatalogUnreachable", "InvalidTableName", "TableName", "TableNotFound"]
