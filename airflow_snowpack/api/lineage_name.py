"""What people call a table or a dataset, as lineage knows it.

full_name(store, "shop.orders", "lake")        # 'lake.shop.orders'
full_name(store, "orders_by_customer", "lake") # the url of the dataset that is called so
"""

from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.store import Store


def full_name(store: Store, given: str, catalog: str) -> str:
    """A table's name with or without its catalog, a dataset's url, or its name: a word without a dot.

    :param catalog: the installation's.
    :raises DatasetNotFound: there is no dataset of this name.
    """
    if not {".", "/"} & set(given):
        return BuildRegistry(store).dataset(given).url.rstrip("/")
    return OperationLog(store).full_name(given, catalog)
