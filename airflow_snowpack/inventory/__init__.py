"""Which tables there are: the catalog's listing, kept in the store, so that it is at hand when the catalog is not."""

from airflow_snowpack.inventory.inventory import Inventory, InventoryState
from airflow_snowpack.inventory.refresher import Refresher

__all__ = ["Inventory", "InventoryState", "Refresher"]
