"""The tables: their names, their catalogs, their health read from metadata.

Names load when they are first used: a DAG file that names a table needs neither its health nor its files. PyIceberg and PyArrow
load when a catalog or a table is first used.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.catalog import CatalogConfig as CatalogConfig
    from airflow_snowpack.iceberg.catalog import CatalogKind as CatalogKind
    from airflow_snowpack.iceberg.catalog import load_table as load_table
    from airflow_snowpack.iceberg.errors import CatalogUnreachable as CatalogUnreachable
    from airflow_snowpack.iceberg.errors import InvalidCatalogName as InvalidCatalogName
    from airflow_snowpack.iceberg.errors import InvalidTableName as InvalidTableName
    from airflow_snowpack.iceberg.errors import LocationOutsideTable as LocationOutsideTable
    from airflow_snowpack.iceberg.errors import TableNotFound as TableNotFound
    from airflow_snowpack.iceberg.errors import TableUnreadable as TableUnreadable
    from airflow_snowpack.iceberg.errors import WrongCatalog as WrongCatalog
    from airflow_snowpack.iceberg.files import DeleteKind as DeleteKind
    from airflow_snowpack.iceberg.files import LiveDelete as LiveDelete
    from airflow_snowpack.iceberg.files import LiveFile as LiveFile
    from airflow_snowpack.iceberg.files import TableFiles as TableFiles
    from airflow_snowpack.iceberg.health import PartitionHealth as PartitionHealth
    from airflow_snowpack.iceberg.health import Ref as Ref
    from airflow_snowpack.iceberg.health import SnapshotHealth as SnapshotHealth
    from airflow_snowpack.iceberg.health import TableHealth as TableHealth
    from airflow_snowpack.iceberg.health import read_health as read_health
    from airflow_snowpack.iceberg.locations import Relation as Relation
    from airflow_snowpack.iceberg.locations import is_inside as is_inside
    from airflow_snowpack.iceberg.metadata_reader import MetadataReader as MetadataReader
    from airflow_snowpack.iceberg.metadata_reader import read_files as read_files
    from airflow_snowpack.iceberg.names import TableName as TableName
    from airflow_snowpack.iceberg.numbers import TableNumbers as TableNumbers
    from airflow_snowpack.iceberg.numbers import read_numbers as read_numbers
    from airflow_snowpack.iceberg.orphans import StoredFile as StoredFile
    from airflow_snowpack.iceberg.orphans import find_orphans as find_orphans
    from airflow_snowpack.iceberg.orphans import list_storage as list_storage
    from airflow_snowpack.iceberg.table_locations import LocationConflict as LocationConflict
    from airflow_snowpack.iceberg.table_locations import LocationMemory as LocationMemory
    from airflow_snowpack.iceberg.table_locations import TableLocations as TableLocations
    from airflow_snowpack.iceberg.table_locations import location_conflicts as location_conflicts

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "catalog": ["CatalogConfig", "CatalogKind", "load_table"],
        "errors": [
            "CatalogUnreachable",
            "InvalidCatalogName",
            "InvalidTableName",
            "LocationOutsideTable",
            "TableNotFound",
            "TableUnreadable",
            "WrongCatalog",
        ],
        "files": ["DeleteKind", "LiveDelete", "LiveFile", "TableFiles"],
        "health": ["PartitionHealth", "Ref", "SnapshotHealth", "TableHealth", "read_health"],
        "locations": ["Relation", "is_inside"],
        "metadata_reader": ["MetadataReader", "read_files"],
        "names": ["TableName"],
        "numbers": ["TableNumbers", "read_numbers"],
        "orphans": ["StoredFile", "find_orphans", "list_storage"],
        "table_locations": ["LocationConflict", "LocationMemory", "TableLocations", "location_conflicts"],
    },
)
