from .health_records import HealthPoint as HealthPoint, HealthRecord as HealthRecord, HealthRecords as HealthRecords
from .inventory import (
    ANSWER_WITHIN as ANSWER_WITHIN,
    Inventory as Inventory,
    InventoryState as InventoryState,
    refresher as refresher,
)
from .stored_locations import StoredLocations as StoredLocations, stored_locations as stored_locations
from .table_scores import (
    Condition as Condition,
    ScoreCounts as ScoreCounts,
    TableScore as TableScore,
    TableScores as TableScores,
)
