from .audit import Actor as Actor, AuditEntry as AuditEntry, AuditTrail as AuditTrail, write_audit as write_audit
from .clock_and_ids import Clock as Clock, IdMaker as IdMaker, new_id as new_id, utc_now as utc_now
from .deadlines import Deadlines as Deadlines
from .dialect import (
    insert as insert,
    row_mapper as row_mapper,
    storable as storable,
    storable_error as storable_error,
    upsert as upsert,
)
from .errors import (
    InvalidCursor as InvalidCursor,
    PoolerRefusesTransactions as PoolerRefusesTransactions,
    SchemaOutOfDate as SchemaOutOfDate,
    StoreError as StoreError,
    StoreFolderMissing as StoreFolderMissing,
    StoreTooSlow as StoreTooSlow,
    StoreUnreachable as StoreUnreachable,
    UnknownRevision as UnknownRevision,
    UnsupportedStore as UnsupportedStore,
)
from .leases import Expired as Expired, Leases as Leases, lease_columns as lease_columns
from .migrate import check_schema as check_schema, upgrade_schema as upgrade_schema
from .opening import open_store as open_store
from .paging import Keyset as Keyset, Page as Page
from .retry import repeatable as repeatable
from .store import Store as Store
