"""Where Spark runs: an engine, chosen by the type of the Airflow connection.

    spark = spark_of(settings, catalog, connection)
    spark.session().sql("SELECT count(*) FROM lake.demo.flights")

:class:`Spark` is the engine without a connection, and of ``spark`` connections. Each module of ``connections/engines/`` has
another; other distributions add engines by an entry point of the group :data:`GROUP`, named after its type of connection.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection, UnusableEngine
from airflow_snowpack.entry_points import entry_points, load_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_snowpack.connections.connection import Connection, ReadConnection
    from airflow_snowpack.iceberg import CatalogConfig
    from airflow_snowpack.settings import Settings
    from airflow_snowpack.spark import SparkConfig, SparkServer, Statements

PURPOSE = "Spark"
GROUP = "airflow_snowpack.engines"
OWN = frozenset(module.name for module in iter_modules([str(Path(__file__).with_name("engines"))]))
"""The types of connections of the package's engines, except for ``spark``."""


@dataclass(frozen=True)
class Spark:
    """Creates sessions that have the installation's catalog; the base class of every engine.

    This engine's sessions run in the calling process: locally, or as the driver of the cluster whose master the connection names.

    :cvar conn_type: the type of the engine's Airflow connections.
    :param connection: ``None`` for a local session. Its extra ``conf`` is additional Spark configuration.
    :param process_catalogs: all catalogs of the process, if it reaches several: one JVM has the jars of all.
    """

    conn_type: ClassVar[str] = "spark"

    settings: Settings
    catalog: CatalogConfig
    connection: Connection | None = None
    process_catalogs: tuple[CatalogConfig, ...] = ()

    @cached_property
    def config(self) -> SparkConfig:
        """The configuration of a session in this process; may contain the catalog's secrets. Raises like :func:`spark_master`."""
        from airflow_snowpack.spark import SparkConfig

        master, conf = self.settings.spark_master, self.settings.spark_conf
        if self.connection is not None:
            master, conf = spark_master(self.connection), {**conf, **connection_conf(self.connection)}
        drivers = [driver for catalog in self.process_catalogs or (self.catalog,) for driver in catalog.spark_packages()]
        return SparkConfig(
            catalogs=self.catalog.spark_conf(),
            master=master,
            driver_memory=self.settings.spark_driver_memory,
            packages=(*drivers, *self.settings.spark_packages),
            conf=conf,
        )

    @property
    def sessions(self) -> Callable[[], SparkSession] | SparkServer:
        """The argument of a :class:`SparkEngine`: a session of this process, or the server for sessions of jobs."""
        return self.session

    def session(self) -> SparkSession:
        """Return this process's session, starting it if there is none.

        :raises SparkUnavailable: no Java, no jar, the wrong Spark version, or a server that does not answer.
        :raises StatementsOnly: the engine has no data frames.
        """
        from airflow_snowpack.spark import local_session

        return local_session(self.config)

    @contextmanager
    def statements(self) -> Iterator[Statements]:
        """Return a session for SQL statements for the block; raises like :meth:`session`."""
        from airflow_snowpack.spark import SessionStatements

        yield SessionStatements(self.session())

    def check(self) -> None:
        """Check that a session can start in this process. Only an application of ``spark-submit`` starts it.

        :raises SparkUnavailable: no Java, no jar, or the wrong Spark version.
        """
        from airflow_snowpack.spark import check_local

        check_local(self.config)

    @classmethod
    def end_sessions(cls, connection: Connection, job_id: str, attempts: Sequence[int]) -> None:
        """End what attempts at a job left running on a server, if ``sessions`` is one.

        :raises UnsuitableConnection: sessions of this type end with their process.
        """
        raise UnsuitableConnection(connection.conn_id, PURPOSE, connection.conn_type, sorted({*OWN, *entry_points(GROUP)}))


def spark_of(settings: Settings, catalog: CatalogConfig, connection: Connection | None) -> Spark:
    """Return the engine that the installation's Spark connection selects, ``None`` a local one; raises like :func:`engine_of`."""
    return (Spark if connection is None else engine_of(connection))(settings, catalog, connection)


def sparks_of(settings: Settings, catalogs: Iterable[CatalogConfig], connection: Connection | None) -> list[Spark]:
    """Return an engine for each catalog of one process, for one that is given twice once; raises like :func:`engine_of`."""
    different = tuple({catalog.catalog_id: catalog for catalog in catalogs}.values())
    return [replace(spark_of(settings, catalog, connection), process_catalogs=different) for catalog in different]


def engine_of(connection: Connection) -> type[Spark]:
    """Return the engine for a type of connection, from this package or another distribution.

    :raises UnsuitableConnection: no engine has this type.
    :raises UnusableEngine: its entry point cannot be loaded, or is not an engine of this type.
    """
    kind, added = connection.conn_type, entry_points(GROUP)
    if kind == Spark.conn_type:
        return Spark
    if kind in OWN:
        own: type[Spark] = getattr(import_module(f"{__package__}.engines.{kind}"), kind.title().replace("_", ""))
        return own
    if kind not in added:
        raise UnsuitableConnection(connection.conn_id, PURPOSE, kind, sorted({Spark.conn_type, *OWN, *added}))
    try:
        return load_class(added[kind], Spark, "conn_type")
    except ValueError as problem:
        raise UnusableEngine(kind, str(problem)) from problem


def known_iceberg(settings: Settings, spark_conn_id: str | None = None) -> str | None:
    """Return the version of Iceberg in local sessions; ``None`` if a server, a cluster or given jars decide it.

    :param spark_conn_id: instead of the setting's.
    """
    if spark_conn_id or settings.spark_conn_id or not {"spark.jars", "spark.jars.packages"}.isdisjoint(settings.spark_conf):
        return None
    from airflow_snowpack.spark.runtimes import installed_runtime

    return installed_runtime().iceberg


def spark_master(connection: Connection) -> str:
    """Return the master of a ``spark`` connection: ``local[4]``, ``yarn``, ``spark://host:7077``, ``k8s://https://host:6443``.

    :raises IncompleteConnection: it has none.
    """
    if not connection.host:
        raise IncompleteConnection(connection.conn_id, PURPOSE, "host (the address of Spark's master)")
    return f"{connection.host}:{connection.port}" if connection.port else connection.host


def connection_conf(connection: Connection) -> Mapping[str, str]:
    """Return additional Spark configuration from the connection's extra ``conf``."""
    return {key: str(value) for key, value in (connection.extra_dejson.get("conf") or {}).items()}


@dataclass(frozen=True)
class SparkOrphans:
    """Ends what killed workers left running on Spark servers, which it finds by their Airflow connections."""

    read_connection: ReadConnection

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        """Interrupt the attempts' statements, wait for their end, and close the sessions.

        :param server: the id of an Airflow connection.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
        :raises SparkUnavailable: the server does not answer, or a statement is still running.
        """
        connection = self.read_connection(server, PURPOSE)
        engine_of(connection).end_sessions(connection, job_id, attempts)
