"""A small partitioned table with real commits over four days, a branch and a tag: ``make_commits(catalog, now)``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from edited_metadata import edited_metadata

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

COMMITTED = "payments.chargebacks"
HOURS, COMMITS = 8, 12
ROWS = pa.schema(
    [
        pa.field("chargeback_id", pa.int64(), nullable=False),
        pa.field("currency", pa.string()),
        pa.field("amount", pa.decimal128(9, 2)),
        pa.field("opened_at", pa.timestamp("us", tz="UTC")),
        pa.field("reason", pa.string(), metadata={"doc": "As the bank gave it."}),
    ]
)


def make_commits(catalog: Catalog, now: datetime) -> None:
    """Append twelve times, delete the rows of one currency, and name two snapshots."""
    from pyiceberg.transforms import IdentityTransform

    catalog.create_namespace_if_not_exists("payments")
    table = catalog.create_table(COMMITTED, ROWS)
    with table.update_spec() as spec:
        spec.add_field("currency", IdentityTransform(), "currency")
    for commit in range(COMMITS):
        number = 400 + (commit * 211) % 900
        currencies = [("EUR", "CHF", "USD")[row % (2 + commit % 2)] for row in range(number)]
        columns = [list(range(number)), currencies, [None] * number, [now] * number, ["fraud"] * number]
        table.append(pa.table([pa.array(values, kind.type) for values, kind in zip(columns, ROWS, strict=True)], ROWS))
    table.delete("currency = 'CHF'")
    ids = [each.snapshot_id for each in table.metadata.snapshots]
    table.manage_snapshots().create_tag(ids[5], "october-close").create_branch(ids[8], "audit").commit()
    with edited_metadata(table) as metadata:
        for place, snapshot in enumerate(metadata["snapshots"]):
            moment = now - timedelta(hours=HOURS * (len(ids) - place), minutes=7 * place)
            snapshot["timestamp-ms"] = round(moment.timestamp() * 1000)
