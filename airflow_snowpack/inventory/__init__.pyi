from .inventory import ANSWER_WITHIN as ANSWER_WITHIN
from .inventory import Inventory as Inventory
from .inventory import InventoryState as InventoryState
from .inventory import refresher as refresher
from .stored_locations import StoredLocations as StoredLocations
from .stored_locations import stored_locations as stored_locations
