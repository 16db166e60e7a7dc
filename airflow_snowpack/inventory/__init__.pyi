from .condition import Condition as Condition
from .health_records import HealthPoint as HealthPoint, HealthRecord as HealthRecord, HealthRecords as HealthRecords
from .inventory import (
    ANSWER_WITHIN as ANSWER_WITHIN,
    Inventory as Inventory,
    InventoryState as InventoryState,
    refresher as refresher,
)
from .stored_footprints import (
    CatalogNotRemembered as CatalogNotRemembered,
    StoredFootprints as StoredFootprints,
    forget_catalog as forget_catalog,
    stored_footprints as stored_footprints,
)
from .table_scores import (
    ScoreCounts as ScoreCounts,
    TableScore as TableScore,
    TableScores as TableScores,
)
