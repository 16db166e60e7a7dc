"""What people ask of interim tables by hand, each change with its entry in the audit trail.

    InterimDesk(registry, Actor("vera", via="cli")).drop(table_id)

The invariant: a table is let go of and noted in one transaction. A pass of the collector or of the sweeper is many; its entry is
written before the first table goes. Nobody drops by hand what somebody still needs.
"""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from airflow_snowpack.interim.model import InterimTable, TableState
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store import Actor, storable, write_audit

COLLECTOR, SWEEPER = "interim", "interim:orphans"
"""What the audit trail calls a pass over all tables."""


def audit_subject(table_id: str) -> str:
    """What the audit trail calls an interim table."""
    return f"interim:{table_id}"


class InterimDesk:
    """Takes requests on behalf of one actor."""

    def __init__(self, registry: InterimRegistry, actor: Actor) -> None:
        self.registry = registry
        self._actor = replace(actor, name=storable(actor.name))

    def drop(self, asked: str) -> InterimTable:
        """Let go of a table that is preserved or named; the collector drops it at its next pass.

        :param asked: the table's id, or its whole name.
        :returns: the table as it is afterwards.
        :raises InterimTableNotFound: there is none.
        :raises InterimTableInUse: somebody needs it.
        """
        table = self.registry.table(asked)
        told = {"table": str(table.table), "rows": table.rows, "producer": str(table.producer)}

        def note(conn: sa.Connection) -> None:
            write_audit(conn, self.registry.store, self._actor, "drop_interim", audit_subject(table.table_id), **told)

        # Not read again: a collector may have dropped it by then.
        before = self.registry.discard(table.table_id, also=note)
        return replace(before, state=TableState.DROPPING, is_named=False)

    def forget(self, asked: str) -> InterimTable:
        """Take a table off the record that no collector could drop; nothing else is touched.

        :param asked: as in :meth:`drop`.
        :returns: the table as it was.
        :raises InterimTableNotFound: there is none.
        :raises InterimTableNotStuck: no drop of it has failed, or a collector is at it.
        """

        def note(conn: sa.Connection, table: InterimTable) -> None:
            told = {"table": str(table.table), "location": table.location, "error": table.error}
            write_audit(conn, self.registry.store, self._actor, "forget_interim", audit_subject(table.table_id), **told)

        return self.registry.forget(self.registry.table(asked).table_id, also=note)

    def note_collection(self) -> None:
        """Somebody has the collector make a pass."""
        self._note("collect_interim", COLLECTOR)

    def note_sweep(self, *, older_than: str) -> None:
        """Somebody has the sweeper drop what no record has."""
        self._note("sweep_interim", SWEEPER, older_than=older_than)

    def note_adoption(self, namespace: str) -> None:
        """Somebody takes over a namespace that was another store's."""
        self._note("adopt_interim", SWEEPER, namespace=namespace)

    def _note(self, change: str, subject: str, **detail: object) -> None:
        store = self.registry.store
        store.transact(lambda conn: write_audit(conn, store, self._actor, change, subject, **detail))
