"""The tables: their names, their catalogs, their health read from metadata.

Importing this room is cheap: PyIceberg and PyArrow load when a catalog or a table is first used.
"""

from airflow_snowpack.iceberg.catalog import CatalogConfig, CatalogKind, load_table
from airflow_snowpack.iceberg.errors import (
    CatalogUnreachable,
    InvalidCatalogName,
    InvalidTableName,
    LocationOutsideTable,
    TableNotFound,
    TableUnreadable,
    WrongCatalog,
)
from airflow_snowpack.iceberg.files import DeleteKind, LiveDelete, LiveFile, TableFiles, read_files
from airflow_snowpack.iceberg.health import PartitionHealth, Ref, SnapshotHealth, TableHealth, read_health
from airflow_snowpack.iceberg.locations import Relation, is_inside
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.numbers import TableNumbers, read_numbers
from airflow_snowpack.iceberg.orphans import LocationConflict, StoredFile, find_orphans, location_conflicts

__all__ = [
    "CatalogConfig",
    "CatalogKind",
    "CatalogUnreachable",
    "DeleteKind",
    "InvalidCatalogName",
    "InvalidTableName",
    "LiveDelete",
    "LiveFile",
    "LocationConflict",
    "LocationOutsideTable",
    "PartitionHealth",
    "Ref",
    "Relation",
    "SnapshotHealth",
    "StoredFile",
    "TableFiles",
    "TableHealth",
    "TableName",
    "TableNotFound",
    "TableNumbers",
    "TableUnreadable",
    "WrongCatalog",
    "find_orphans",
    "is_inside",
    "load_table",
    "location_conflicts",
    "read_files",
    "read_health",
    "read_numbers",
]
