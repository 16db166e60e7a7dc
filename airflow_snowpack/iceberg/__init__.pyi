from .catalog import CatalogConfig as CatalogConfig, CatalogKind as CatalogKind, load_table as load_table
from .errors import (
    CatalogUnreachable as CatalogUnreachable,
    InvalidCatalogName as InvalidCatalogName,
    InvalidTableName as InvalidTableName,
    LocationOutsideTable as LocationOutsideTable,
    QuarantineNotPossible as QuarantineNotPossible,
    TableNotFound as TableNotFound,
    TableUnreadable as TableUnreadable,
)
from .footprints import (
    Footprint as Footprint,
    FootprintMemory as FootprintMemory,
    TableKey as TableKey,
    read_footprint as read_footprint,
)
from .foreign_files import (
    ForeignFiles as ForeignFiles,
    LocationConflict as LocationConflict,
    location_conflicts as location_conflicts,
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
from .locations import Equalities as Equalities, Relation as Relation, is_inside as is_inside
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
