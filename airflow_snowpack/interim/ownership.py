"""Which store owns the interim tables in a namespace: each store marks its namespace and its tables with its id.

    claim(catalog, "lake", "snowpack_interim", store.identity)          # before a table is written; ForeignNamespace
    ownership_of(catalog, "snowpack_interim", store.identity).has(table.properties)

Invariant: **nothing that carries another store's id is touched.** The table's mark decides. The namespace's mark keeps two
installations with equal settings from writing side by side, and decides for tables and folders without a mark. In catalogs
without namespace properties only the tables' marks count, and folders belong to no store.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import connection_errors
from airflow_snowpack.iceberg.table_properties import STORE
from airflow_snowpack.interim.errors import ForeignNamespace, UnmarkedNamespace
from airflow_snowpack.store import Actor, Store, write_audit

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)

STORES_BEFORE = "snowpack.stores-before"
AUDIT_SUBJECT = "interim:orphans"
"""The audit trail's name for a sweep, and for taking over a namespace."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner of a namespace, as seen by one store.

    :param store_id: the id of that store.
    :param owner: the namespace's mark; ``None``: it has no mark, or the catalog cannot store one.
    :param before: the stores from which it was taken over.
    """

    store_id: str
    owner: str | None
    before: frozenset[str] = frozenset()

    @property
    def is_own(self) -> bool:
        """Whether the namespace belongs to this store."""
        return self.owner == self.store_id

    @property
    def is_foreign(self) -> bool:
        """Whether the namespace belongs to another store."""
        return self.owner is not None and not self.is_own

    def has(self, properties: Mapping[str, str]) -> bool:
        """Return whether a table with these properties belongs to this store. Without a mark, the namespace's mark decides."""
        mark = properties.get(STORE)
        return mark == self.store_id or (self.is_own and (mark is None or mark in self.before))


def ownership_of(catalog: Catalog, namespace: str, store_id: str) -> Ownership:
    """Return the owner of the namespace; a missing namespace has none."""
    properties = _properties(catalog, namespace) or {}
    return Ownership(store_id, properties.get(STORE), frozenset(properties.get(STORES_BEFORE, "").split()))


def claim(catalog: Catalog, catalog_name: str, namespace: str, store_id: str) -> None:
    """Ensure that the namespace exists and belongs to this store: the first store to claim it owns it.

    :param catalog_name: this installation's name for the catalog.
    :raises ForeignNamespace: it belongs to another store.
    """
    properties = _properties(catalog, namespace)
    if properties is None:
        properties = _create(catalog, namespace, {STORE: store_id})
    if STORE not in properties:
        # Read it again afterwards: if two stores mark it concurrently, the last one owns it.
        properties = _mark(catalog, namespace, {STORE: store_id})
    if (owner := properties.get(STORE, store_id)) != store_id:
        raise ForeignNamespace(catalog_name, namespace, owner)


def adopt(catalog: Catalog, catalog_name: str, namespace: str, store: Store, actor: Actor) -> str | None:
    """Take over the namespace, with what the previous stores have left in it.

    :param actor: the user, for the audit trail; the entry is written before another store's namespace is changed.
    :returns: the id of the previous owner; ``None``: there was none, or it was this store.
    :raises UnmarkedNamespace: the catalog has no namespace properties.
    """
    store_id = store.identity
    before = ownership_of(catalog, namespace, store_id)
    if before.is_foreign:
        detail = {"namespace": namespace}
        store.transact(lambda conn: write_audit(conn, store, actor, "adopt_interim", AUDIT_SUBJECT, **detail))
        others = (before.before | {str(before.owner)}) - {store_id}
        _mark(catalog, namespace, {STORE: store_id, STORES_BEFORE: " ".join(sorted(others))})
    else:
        claim(catalog, catalog_name, namespace, store_id)
    if not ownership_of(catalog, namespace, store_id).is_own:
        raise UnmarkedNamespace(catalog_name, namespace)
    return before.owner if before.is_foreign else None


def _properties(catalog: Catalog, namespace: str) -> Mapping[str, str] | None:
    """Return the properties of a namespace; ``None`` if it does not exist."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return dict(catalog.load_namespace_properties(tuple(namespace.split("."))))
    except NoSuchNamespaceError:
        return None
    except NotImplementedError:
        catalog.create_namespace_if_not_exists(namespace)
        return {}


def _create(catalog: Catalog, namespace: str, properties: dict[str, str]) -> Mapping[str, str]:
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    # A SQL catalog in which another process has just created it reports an existing row.
    exists: tuple[type[Exception], ...] = (NamespaceAlreadyExistsError, *connection_errors())
    try:
        catalog.create_namespace(tuple(namespace.split(".")), properties)
    except exists:
        found = _properties(catalog, namespace)
        if found is None:
            raise
        return found
    return _properties(catalog, namespace) or {}


def _mark(catalog: Catalog, namespace: str, updates: dict[str, str]) -> Mapping[str, str]:
    refused: tuple[type[Exception], ...] = (NotImplementedError, *connection_errors())
    try:
        catalog.update_namespace_properties(tuple(namespace.split(".")), updates=updates)
    except refused as problem:  # it may only be allowed to create tables; an unreachable catalog fails at the next call
        log.warning("interim_namespace_not_marked: %s: %s", namespace, problem)
    return _properties(catalog, namespace) or {}
