"""The one database: engine, schema, migrations, clock, and the lease-and-fence primitive that every room uses."""

from airflow_snowpack.store.audit import Actor, AuditEntry, AuditTrail, write_audit
from airflow_snowpack.store.clock_and_ids import Clock, IdMaker, new_id, utc_now
from airflow_snowpack.store.deadlines import Deadlines
from airflow_snowpack.store.dialect import insert, storable, upsert
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
from airflow_snowpack.store.leases import ClaimCursor, Expired, Leases, lease_columns
from airflow_snowpack.store.mapping import row_mapper
from airflow_snowpack.store.migrate import check_schema, upgrade_schema
from airflow_snowpack.store.opening import open_store
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.retry import repeatable
from airflow_snowpack.store.store import Store

__all__ = [
    "Actor",
    "AuditEntry",
    "AuditTrail",
    "ClaimCursor",
    "Clock",
    "Deadlines",
    "Expired",
    "IdMaker",
    "InvalidCursor",
    "Keyset",
    "Leases",
    "Page",
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
