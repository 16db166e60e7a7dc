"""The sign of life of a process beside Airflow, with its catalog, which `airflow snowpack doctor` compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.redaction import public_address

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.store import Store
    from airflow_snowpack.store.signs_of_life import Role, SignOfLife


def sign_of_process(
    store: Store,
    role: Role,
    catalog: IcebergCatalogHook | None = None,
    *,
    period: timedelta | None = None,
    instance: str | None = None,
) -> SignOfLife:
    """Return the sign of life of this process, after a first beat.

    :param catalog: recorded with it; a catalog that cannot be described is recorded as such.
    :param period: how far apart its signs are; ``None`` for a process that beats all the time.
    :param instance: the name; ``None`` for host and process id.
    """
    from airflow_snowpack.store.signs_of_life import BEAT, SignOfLife

    detail = {} if catalog is None else catalog_facts(catalog)
    sign = SignOfLife(store, role, instance, period=period or BEAT, detail=detail)
    sign.beat()
    return sign


def catalog_facts(catalog: IcebergCatalogHook) -> dict[str, str]:
    """Return the identity and the warehouse of the catalog, without secrets."""
    try:
        config = catalog.config
    except SnowpackError:
        return {"catalog_id": "", "warehouse": ""}
    return {"catalog_id": config.catalog_id, "warehouse": public_address(config.warehouse or "")}
