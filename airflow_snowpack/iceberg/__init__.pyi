from .catalog import CatalogConfig as CatalogConfig, CatalogKind as CatalogKind, load_table as load_table
from .errors import (
    CatalogUnreachable as CatalogUnreachable,
    InvalidCatalogName as InvalidCatalogName,
    InvalidTableName as InvalidTableName,
    LocationOutsideTable as LocationOutsideTable,
    TableNotFound as TableNotFound,
    TableUnreadable as TableUnreadable,
    WrongCatalog as WrongCatalog,
)
from .files import DeleteKind as DeleteKind, LiveDelete as LiveDelete, LiveFile as LiveFile, TableFiles as TableFiles
from .health import (
    PartitionHealth as PartitionHealth,
    Ref as Ref,
    SnapshotHealth as SnapshotHealth,
    TableHealth as TableHealth,
    read_health as read_health,
)
from .locations import Relation as Relation, is_inside as is_inside
from .metadata_reader import MetadataReader as MetadataReader, read_files as read_files
from .names import TableName as TableName
from .numbers import TableNumbers as TableNumbers, read_numbers as read_numbers
from .orphans import StoredFile as StoredFile, find_orphans as find_orphans, list_storage as list_storage
from .table_locations import (
    LocationConflict as LocationConflict,
    LocationMemory as LocationMemory,
    TableLocations as TableLocations,
    location_conflicts as location_conflicts,
)
