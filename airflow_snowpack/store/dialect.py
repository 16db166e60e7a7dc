"""SQL that both databases understand.

store.execute(upsert(signs_of_life, ["seen_at"]), {"role": "worker", "instance": "w1", "seen_at": now, …})
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def insert(table: sa.Table) -> postgresql.Insert:
    """Return an ``INSERT`` that can have an ``ON CONFLICT`` clause; SQLAlchemy writes Postgres's clause for SQLite too."""
    return postgresql.insert(table)


def upsert(table: sa.Table, changed: Iterable[str], *, where: sa.ColumnElement[bool] | None = None) -> postgresql.Insert:
    """Return an ``INSERT`` that replaces these columns of a row whose primary key is there already.

    :param where: replace them only if this is true of the row that is there.
    """
    new = insert(table)
    replaced: dict[str, Any] = {name: new.excluded[name] for name in changed}
    return new.on_conflict_do_update(index_elements=list(table.primary_key), set_=replaced, where=where)
