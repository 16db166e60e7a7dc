from .catalog import CatalogConfig as CatalogConfig, CatalogKind as CatalogKind, load_table as load_table
from .errors import (
    CatalogUnreachable as CatalogUnreachable,
    InvalidCatalogName as InvalidCatalogName,
    InvalidTableName as InvalidTableName,
    LocationOutsideTable as LocationOutsideTable,
    TableNotFound as TableNotFound,
    TableUnreadable as TableUnreadable,
)
from .health import (
    FileCounts as FileCounts,
    HealthBounds as HealthBounds,
    PartitionHealth as PartitionHealth,
    Ref as Ref,
    TableHealth as TableHealth,
    TableNumbers as TableNumbers,
    read_health as read_health,
    read_numbers as read_numbers,
)
from .locations import (
    LocationConflict as LocationConflict,
    LocationMemory as LocationMemory,
    Relation as Relation,
    is_inside as is_inside,
    location_conflicts as location_conflicts,
)
from .metadata_reader import (
    DeleteKind as DeleteKind,
    LiveDelete as LiveDelete,
    LiveFile as LiveFile,
    MetadataReader as MetadataReader,
    TableFiles as TableFiles,
)
from .names import TableName as TableName
from .orphans import (
    StoredFile as StoredFile,
    find_orphans as find_orphans,
    list_storage as list_storage,
    stat_files as stat_files,
)
