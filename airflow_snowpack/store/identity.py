"""The store's own id: by it a catalog that several installations share knows whose interim tables it has.

    store.identity        # '9f3c5a1e7b2d4c8f9a6e0d1b3c5f7a92'

The invariant: it is drawn once, when it is first asked for, by whoever asks first; a restored backup has the id of what it is a
backup of. So a copy that is to live beside its original has to lose it: ``DELETE FROM store_facts WHERE name = 'store_id'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.ids import new_id
from airflow_snowpack.store.schema import store_facts

if TYPE_CHECKING:
    from airflow_snowpack.store.store import Store

STORE_ID = "store_id"
READ = sa.select(store_facts.c.value).where(store_facts.c.name == STORE_ID)


DRAW = insert(store_facts).on_conflict_do_nothing()


def identity_of(store: Store) -> str:
    """The id of the store, drawn if it has none.

    :raises StoreUnreachable: it does not answer.
    """
    if known := store.scalar(READ):
        return str(known)

    def draw(conn: sa.Connection) -> str:
        conn.execute(DRAW, {"name": STORE_ID, "value": new_id()})
        return str(conn.execute(READ).scalar_one())

    return store.transact(draw)
