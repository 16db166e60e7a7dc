"""Which tables there are: the catalog's listing, kept in the store, so that it is at hand when the catalog is not."""

from airflow_snowpack.inventory.inventory import ANSWER_WITHIN, Inventory, InventoryState, refresher
from airflow_snowpack.inventory.stored_locations import StoredLocations, stored_locations

__all__ = ["ANSWER_WITHIN", "Inventory", "InventoryState", "StoredLocations", "refresher", "stored_locations"]
