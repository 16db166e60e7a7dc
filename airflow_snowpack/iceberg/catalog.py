"""A catalog: one description from which Spark and PyIceberg both reach the same tables.

    >>> config = CatalogConfig.rest("lake", "http://catalog:8181", token="…")
    >>> config.spark_conf()["spark.sql.catalog.lake.uri"]
    'http://catalog:8181'
    >>> table = load_table(config.load(), TableName.parse("flights.departures", catalog="lake"))  # doctest: +SKIP

The invariant: each engine sees the other's commits at once. Both therefore use the same catalog name, by which a SQL catalog keys
its rows, and Spark's table cache stays off. No representation of a :class:`CatalogConfig` contains secrets.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import posixpath
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from airflow_snowpack.iceberg.errors import (
    CatalogLibraryMissing,
    CatalogUnreachable,
    InvalidCatalogName,
    TableNotFound,
    TableUnreadable,
)
from airflow_snowpack.iceberg.locations import normalise
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.iceberg.spark_storage import storage_packages, storage_properties
from airflow_snowpack.redaction import public_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.names import TableName

SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.54.1.0"
POSTGRES_JDBC = "org.postgresql:postgresql:42.7.14"
TABLES_OF_SQL_CATALOG = 2
"""A process that meets a new database may lose the race to create each of its tables once."""
FINGERPRINT_LENGTH = 12
ANSWER_WITHIN = timedelta(minutes=2)
"""How long a catalog service may take for each answer, where nothing waits for it but one job or task."""
WEB_PORTS = {"http": ":80", "https": ":443"}
SEVERAL = "\n"
"""Separates the facts of several catalogs of a process."""
DUPLICATE_TABLE, UNIQUE_VIOLATION = "42P07", "23505"


class CatalogKind(StrEnum):
    """Where a catalog stores its list of tables."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"
    REST = "rest"
    HIVE = "hive"
    GLUE = "glue"


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """A catalog's name and how to reach it. Create one with :meth:`embedded`, :meth:`sqlite`, :meth:`postgres`, :meth:`rest`,
    :meth:`hive` or :meth:`glue`.

    :param name: as in ``name.database.table``; one level of a table name.
    :param address: a file for SQLite, ``host:port/database`` for Postgres, a URL for REST, ``thrift://host:port`` for Hive
        (several, separated by commas), and the region of Glue.
    :param warehouse: where new tables go; a REST catalog may have its own, and a database of Hive or Glue its location.
    :param properties: for both engines, such as ``s3.endpoint``; may contain secrets.
    :param spark_properties: for Spark alone, such as ``io-impl``; may contain secrets.
    :raises InvalidCatalogName: the name is not one level.
    """

    name: str
    kind: CatalogKind
    address: str
    warehouse: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark_properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not LEVEL.fullmatch(self.name):
            raise InvalidCatalogName(self.name)

    @classmethod
    def embedded(cls, home: Path, name: str = "lake") -> CatalogConfig:
        """Return the default: ``catalog.db`` and ``warehouse/`` below a folder, which is created if missing."""
        warehouse = home.absolute() / "warehouse"
        warehouse.mkdir(parents=True, exist_ok=True)
        return cls.sqlite(name, home.absolute() / "catalog.db", warehouse=f"file://{warehouse}")

    @classmethod
    def sqlite(cls, name: str, file: Path, *, warehouse: str, properties: Mapping[str, str] | None = None) -> CatalogConfig:
        """Return a SQL catalog in one SQLite file, for one machine."""
        return cls(name, CatalogKind.SQLITE, str(file.absolute()), warehouse, properties=dict(properties or {}))

    @classmethod
    def postgres(
        cls,
        name: str,
        *,
        host: str,
        database: str,
        warehouse: str,
        port: int = 5432,
        user: str | None = None,
        password: str | None = None,
        properties: Mapping[str, str] | None = None,
        spark_properties: Mapping[str, str] | None = None,
    ) -> CatalogConfig:
        return cls(
            name,
            CatalogKind.POSTGRES,
            f"{host}:{port}/{database}",
            warehouse,
            user,
            password,
            dict(properties or {}),
            dict(spark_properties or {}),
        )

    @classmethod
    def rest(
        cls,
        name: str,
        uri: str,
        *,
        warehouse: str | None = None,
        token: str | None = None,
        credential: str | None = None,
        properties: Mapping[str, str] | None = None,
        spark_properties: Mapping[str, str] | None = None,
    ) -> CatalogConfig:
        """Return a REST catalog.

        :param token: a bearer token.
        :param credential: ``client-id:client-secret`` for OAuth2.
        """
        secrets = {"token": token, "credential": credential}
        merged = {**(properties or {}), **{key: value for key, value in secrets.items() if value}}
        return cls(name, CatalogKind.REST, uri, warehouse, properties=merged, spark_properties=dict(spark_properties or {}))

    @classmethod
    def hive(
        cls,
        name: str,
        uri: str,
        *,
        warehouse: str | None = None,
        properties: Mapping[str, str] | None = None,
        spark_properties: Mapping[str, str] | None = None,
    ) -> CatalogConfig:
        """Return a Hive Metastore, by one or more addresses. It requires the extra ``hive``."""
        return cls(
            name,
            CatalogKind.HIVE,
            uri,
            warehouse,
            properties=dict(properties or {}),
            spark_properties=dict(spark_properties or {}),
        )

    @classmethod
    def glue(
        cls,
        name: str,
        region: str,
        *,
        warehouse: str | None = None,
        properties: Mapping[str, str] | None = None,
        spark_properties: Mapping[str, str] | None = None,
    ) -> CatalogConfig:
        """Return AWS Glue in a region, by default with the identity of the machine. It requires the extra ``glue``.

        :param properties: ``glue.id`` is the account of another Glue catalog.
        """
        merged = {"glue.region": region, "client.region": region, **(properties or {})}
        return cls(name, CatalogKind.GLUE, region, warehouse, properties=merged, spark_properties=dict(spark_properties or {}))

    @property
    def catalog_id(self) -> str:
        """The fingerprint of the catalog's address, without secrets: the same for every connection to it.

        It includes the name of a SQL catalog, and the warehouse or prefix of a REST catalog, since one server may have several.
        """
        match self.kind:
            case CatalogKind.REST:
                prefix = self.properties.get("prefix", "").strip("/")
                which = _warehouse_place(self.warehouse or self.properties.get("warehouse")), prefix or None
                parts = [_web_place(self.properties.get("uri", self.address)), *which]
            case CatalogKind.SQLITE:
                parts = [os.path.realpath(self.address), self.name]
            case CatalogKind.POSTGRES:
                place, _, database = self.address.partition("/")
                parts = [f"{_host_place(place)}/{database}", self.name]
            case CatalogKind.HIVE:
                parts = [",".join(sorted(_web_place(uri.strip()) for uri in self.properties.get("uri", self.address).split(",")))]
            case CatalogKind.GLUE:
                parts = [self.properties.get(f"glue.{name}") for name in ("region", "id", "endpoint")]
        return hashlib.sha256(json.dumps([self.kind, *parts]).encode()).hexdigest()[:FINGERPRINT_LENGTH]

    @property
    def facts(self) -> dict[str, str]:
        """Return the identity and the warehouse, without secrets, to compare processes."""
        return {"catalog_id": self.catalog_id, "warehouse": public_address(self.warehouse or "")}

    @property
    def where(self) -> str:
        """The address without secrets, for messages."""
        return self.address if self.kind is CatalogKind.SQLITE else public_address(self._pyiceberg_uri())

    def __repr__(self) -> str:
        warehouse = public_address(self.warehouse) if self.warehouse else None
        return f"CatalogConfig(name={self.name!r}, kind={self.kind.value!r}, where={self.where!r}, {warehouse=})"

    def spark_conf(self) -> dict[str, str]:
        """Return the settings that give a Spark session this catalog; they may contain secrets."""
        reach = {"warehouse": self.warehouse, "cache-enabled": "false", **self._spark_reach()}
        storage = storage_properties(self.warehouse, self.properties)
        settings = {**reach, **storage, **self.properties, **self.spark_properties}
        prefix = f"spark.sql.catalog.{self.name}"
        conf = {f"{prefix}.{key}": value for key, value in settings.items() if value is not None}
        return {prefix: "org.apache.iceberg.spark.SparkCatalog", **conf}

    def spark_packages(self) -> tuple[str, ...]:
        """Return the Maven coordinates that Spark needs besides Iceberg's runtime."""
        drivers = {CatalogKind.SQLITE: (SQLITE_JDBC,), CatalogKind.POSTGRES: (POSTGRES_JDBC,)}
        return (*drivers.get(self.kind, ()), *storage_packages(self.warehouse, self.properties))

    def load(self, limit: timedelta = ANSWER_WITHIN) -> Catalog:
        """Connect with PyIceberg, which waits for ever for a silent service.

        :param limit: how long a catalog service may take for each answer.
        :raises CatalogUnreachable: it does not answer.
        :raises CatalogLibraryMissing: the library of a Hive Metastore or of Glue is not installed.
        """
        from pydantic import ValidationError

        properties = {"uri": self._pyiceberg_uri(), **self.properties}
        if self.warehouse:
            properties["warehouse"] = self.warehouse
        try:
            return self._connect(properties, limit)
        except ModuleNotFoundError as missing:
            if self.kind not in (CatalogKind.HIVE, CatalogKind.GLUE):
                raise
            raise CatalogLibraryMissing(self.name, self.kind, str(missing.name)) from missing
        except Exception as error:
            # What answers may not be a catalog, but a proxy with an error page.
            unusable: tuple[type[Exception], ...] = (ValidationError, *connection_errors())
            if not isinstance(error, unusable):
                raise
            raise CatalogUnreachable(self.name, error) from error

    def _connect(self, properties: dict[str, str], limit: timedelta) -> Catalog:
        match self.kind:
            case CatalogKind.REST:
                from airflow_snowpack.iceberg.patient_rest import PatientRestCatalog

                return PatientRestCatalog(self.name, limit, **properties)
            case CatalogKind.HIVE:
                from airflow_snowpack.iceberg.guarded_hive import GuardedHiveCatalog

                return GuardedHiveCatalog(self.name, limit, **properties)
            case CatalogKind.GLUE:
                from airflow_snowpack.iceberg.guarded_glue import GuardedGlueCatalog

                return GuardedGlueCatalog(self.name, limit, **properties)
            case _:
                return self._connect_sql(properties)

    def _connect_sql(self, properties: dict[str, str]) -> Catalog:
        from sqlalchemy.exc import DBAPIError

        from airflow_snowpack.iceberg.guarded_sql_catalog import GuardedSqlCatalog

        for _ in range(TABLES_OF_SQL_CATALOG):
            try:
                return GuardedSqlCatalog(self.name, **properties)
            except DBAPIError as error:
                # PyIceberg creates the missing tables of a SQL catalog; another process may create them at the same time.
                is_duplicate = getattr(error.orig, "sqlstate", None) in (DUPLICATE_TABLE, UNIQUE_VIOLATION)
                if not is_duplicate and "already exists" not in str(error.orig):
                    raise
        return GuardedSqlCatalog(self.name, **properties)

    def _spark_reach(self) -> dict[str, str | None]:
        match self.kind:
            case CatalogKind.REST | CatalogKind.HIVE:
                return {"type": self.kind.value, "uri": self.address}
            case CatalogKind.GLUE:
                return {"type": "glue"}
        scheme = "postgresql://" if self.kind is CatalogKind.POSTGRES else "sqlite:"
        return {
            "type": "jdbc",
            "uri": f"jdbc:{scheme}{self.address}",
            # V1 is the table layout that PyIceberg reads and writes.
            "jdbc.schema-version": "V1",
            "jdbc.user": self.user,
            "jdbc.password": self.password,
        }

    def _pyiceberg_uri(self) -> str:
        if self.kind in (CatalogKind.REST, CatalogKind.HIVE, CatalogKind.GLUE):
            return self.address
        if self.kind is CatalogKind.SQLITE:
            return f"sqlite:///{self.address}"
        login = quote(self.user or "", safe="") + (f":{quote(self.password, safe='')}" if self.password else "")
        return f"postgresql+psycopg://{login}{'@' if login else ''}{self.address}"


def joined_facts(catalogs: Iterable[CatalogConfig]) -> dict[str, str]:
    """Return the facts of the catalogs of a process; :data:`SEVERAL` separates them."""
    every = [catalog.facts for catalog in catalogs]
    return {key: SEVERAL.join(facts[key] for facts in every) for key in every[0]}


def _web_place(url: str) -> str:
    """Return where a URL leads, without credentials and in one spelling."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    place = _host_place(parts.netloc.rpartition("@")[2].removesuffix(WEB_PORTS.get(scheme, "")))
    path = posixpath.normpath(f"/{unquote(parts.path)}").strip("/")
    return f"{scheme}://{place}{f'/{path}' if path else ''}{f'?{parts.query}' if parts.query else ''}"


def _host_place(place: str) -> str:
    """Return a host with its port in one spelling: a fully qualified name such as ``db.example.`` is the same host."""
    return place.lower().replace(".:", ":").removesuffix(".")


def _warehouse_place(warehouse: str | None) -> str | None:
    """Return a location in one spelling; a REST catalog may have a name instead, which stays as it is."""
    return normalise(warehouse) if warehouse and "://" in warehouse else warehouse


def load_table(catalog: Catalog, name: TableName) -> Table:
    """Open a table.

    :raises TableNotFound: the catalog has no such table; the message names some that its database has.
    :raises TableUnreadable: its metadata file cannot be read, or names snapshots that it does not have.
    :raises CatalogUnreachable: the catalog does not answer.
    """
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchPropertyException, NoSuchTableError

    try:
        table = catalog.load_table(name.identifier)
    except (NoSuchTableError, NoSuchNamespaceError, NoSuchPropertyException):  # the last for a table in another format
        raise TableNotFound(name.dotted, catalog.name, neighbours(catalog, name)) from None
    except connection_errors() as error:
        raise CatalogUnreachable(catalog.name, error) from error
    except unreadable_errors() as error:
        raise TableUnreadable(name.dotted, error) from error
    found = table.name()
    if found != name.identifier and [*map(str.lower, found)] == [*map(str.lower, name.identifier)]:
        # Hive and Glue ignore case: under two names, one table would have two locks and two histories.
        raise TableNotFound(name.dotted, catalog.name, (".".join(found),))
    check_refs(table)
    return table


def check_refs(table: Table) -> None:
    """Check that the current snapshot, and that of each branch and tag, exists; PyIceberg treats a missing one as an empty table.

    An id that is not set, or -1, is an empty table. The parent of a snapshot may be missing: it has expired.

    :raises TableUnreadable: the metadata is damaged; Iceberg's Java library refuses it too.
    """
    metadata = table.metadata
    known, current, main = (
        {each.snapshot_id for each in metadata.snapshots},
        metadata.current_snapshot_id,
        metadata.refs.get("main"),
    )
    named = {} if current is None else {"current-snapshot-id": current}
    named |= {f"the {ref.snapshot_ref_type.value} {name!r}": ref.snapshot_id for name, ref in metadata.refs.items()}
    what = next((f"{name} is {id_} and it has no such snapshot" for name, id_ in named.items() if id_ not in known), None)
    if what is None and main is not None and main.snapshot_id != current:
        what = f"current-snapshot-id is {current} and the branch 'main' is at {main.snapshot_id}"
    if what is not None:
        advice = "Register the table again with an earlier metadata file."
        raise TableUnreadable(".".join(table.name()), ValueError(f"the metadata is damaged: {what}"), advice)


def with_snapshots(catalog: RestCatalog, mode: str) -> RestCatalog:
    """Return a view of a catalog, on the same session, whose tables have ``all`` snapshots, or only those of ``refs``."""
    from pyiceberg.catalog.rest import SNAPSHOT_LOADING_MODE

    view = copy.copy(catalog)
    view.properties = {**catalog.properties, SNAPSHOT_LOADING_MODE: mode}
    return view


def refused_commit(table: Table) -> str | None:
    """Return the refusal if a REST catalog does not permit commits to the table, by a commit that changes nothing."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import ForbiddenError
    from pyiceberg.table.update import AssertTableUUID

    if not isinstance(table.catalog, RestCatalog):
        return None
    try:
        table.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), ())
    except ForbiddenError as refusal:
        return str(refusal)
    except Exception:  # noqa: BLE001 - whatever else a server answers to a commit without changes
        return None
    return None


def neighbours(catalog: Catalog, name: TableName) -> tuple[str, ...]:
    """Return other tables of the database, for the message about one that is missing; empty if they cannot be read."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    silence: tuple[type[Exception], ...] = (NoSuchNamespaceError, *connection_errors())
    try:
        return tuple(sorted(".".join(identifier) for identifier in catalog.list_tables(name.identifier[:-1])))
    # The other tables are optional in the message: if this request fails, the answer to the first one still counts.
    except silence:
        return ()


def unreadable_errors() -> tuple[type[Exception], ...]:
    """Return the errors that PyIceberg raises when a metadata file is missing, unreachable or damaged."""
    from pyiceberg.exceptions import ValidationError

    return (OSError, ValueError, ValidationError)


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the errors that PyIceberg raises when a catalog does not answer, or refuses."""
    from pyiceberg.exceptions import RESTError
    from requests.exceptions import RequestException

    return (RESTError, RequestException, *_of_optional_libraries())


def _of_optional_libraries() -> tuple[type[Exception], ...]:
    """Return the errors of libraries that not every catalog needs; one that was never imported has raised none."""
    named = (
        ("sqlalchemy.exc", ("SQLAlchemyError",)),
        ("thrift.Thrift", ("TException",)),
        ("botocore.exceptions", ("BotoCoreError", "ClientError")),
    )
    return tuple(getattr(sys.modules[module], name) for module, names in named if module in sys.modules for name in names)
