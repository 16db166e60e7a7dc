"""The one database: engine, schema, migrations, clock, and the lease-and-fence primitive that every room uses."""

from airflow_snowpack.store.audit import Actor, AuditEntry, AuditTrail, write_audit
from airflow_snowpack.store.clock import Clock, utc_now
from airflow_snowpack.store.dialect import insert, upsert
from airflow_snowpack.store.errors import (
    InvalidCursor,
    PoolerRefusesTransactions,
    SchemaOutOfDate,
    StoreError,
    StoreFolderMissing,
    StoreTooSlow,
    StoreUnreachable,
    UnknownRevision,
    UnsupportedStore,
)
from airflow_snowpack.store.ids import IdMaker, new_id
from airflow_snowpack.store.leases import ClaimCursor, Expired, Leases, lease_columns
from airflow_snowpack.store.mapping import row_mapper
from airflow_snowpack.store.migrate import check_schema, upgrade_schema
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.patience import Patience
from airflow_snowpack.store.retry import repeatable
from airflow_snowpack.store.store import Store, open_store
from airflow_snowpack.store.text import storable

__all__ = [
    "Actor",
    "AuditEntry",
    "AuditTrail",
    "ClaimCursor",
    "Clock",
    "Expired",
    "IdMaker",
    "InvalidCursor",
    "Keyset",
    "Leases",
    "Page",
    "Patience",
    "PoolerRefusesTransactions",
    "SchemaOutOfDate",
    "Store",
    "StoreError",
    "StoreFolderMissing",
    "StoreTooSlow",
    "StoreUnreachable",
    "UnknownRevision",
    "UnsupportedStore",
    "check_schema",
    "insert",
    "lease_columns",
    "new_id",
    "open_store",
    "repeatable",
    "row_mapper",
    "storable",
    "upgrade_schema",
    "upsert",
    "utc_now",
    "write_audit",
]
