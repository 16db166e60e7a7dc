"""The hook of the store and its services.

    with SnowpackHook() as hook:
        job = hook.jobs().get(job_id)

Without a connection the store is the SQLite file ``snowpack.db`` in AIRFLOW_HOME. The invariant: a hook has one store, opened on
first use and closed with the hook.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from airflow.sdk import BaseHook

from airflow_snowpack.connections.image_registry import PURPOSE as REGISTRY, image_registry
from airflow_snowpack.connections.spark import SparkOrphans
from airflow_snowpack.connections.store import PURPOSE, store_url
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.hooks.connections import public_message, read_connection, refuse_on_remote_executor
from airflow_snowpack.hooks.dag_files import dags_folder
from airflow_snowpack.installation import Installation
from airflow_snowpack.maintenance.policies import Policies, PoliciesFile
from airflow_snowpack.redaction import remember_secrets
from airflow_snowpack.runners.images.target import ImageTarget
from airflow_snowpack.settings import Settings
from airflow_snowpack.store import Deadlines, Store, open_store
from airflow_snowpack.store.opening import open_engine

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from sqlalchemy.engine import URL

    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.interim.registry import InterimRegistry
    from airflow_snowpack.jobs import Jobs, TableLocks


class SnowpackHook(BaseHook):
    """Opens the store.

    :param store_conn_id: a ``snowpack_store``, ``postgres`` or ``sqlite`` connection; ``None`` for ``[snowpack] store_conn_id``.
    :param deadlines: the time limits of an interactive process; ``None`` for a task.
    :param lock_wait: see :class:`~airflow_snowpack.installation.Installation`.
    :param ends_orphans: let a sweep wait for Spark Connect work of killed workers; not in a process that answers requests.
    """

    conn_name_attr = "store_conn_id"
    default_conn_name = "snowpack_store"
    conn_type = "snowpack_store"
    hook_name = "Snowpack store"

    def __init__(
        self,
        store_conn_id: str | None = None,
        *,
        deadlines: Deadlines | None = None,
        lock_wait: timedelta | None = None,
        ends_orphans: bool = True,
    ) -> None:
        super().__init__()
        self._given_conn_id = store_conn_id
        self._deadlines = deadlines
        self._lock_wait = lock_wait
        self._ends_orphans = ends_orphans
        self._installation: Installation | None = None

    @cached_property
    def settings(self) -> Settings:
        """:raises InvalidSetting: as :meth:`Settings.load`."""
        return Settings.load()

    @property
    def store_conn_id(self) -> str | None:
        """The connection that is used; ``None`` for the embedded file."""
        return self._given_conn_id or self.settings.store_conn_id

    def url(self) -> URL:
        """Return the URL of the store, including secrets; show ``Store.where`` instead.

        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
        :raises ConnectionUnreadable: Airflow does not answer.
        :raises EmbeddedNotShared: there is no connection, and tasks may run on other hosts.
        """
        conn_id = self.store_conn_id
        return self._embedded_url() if conn_id is None else store_url(with_token(read_connection(conn_id, PURPOSE)))

    def get_conn(self) -> Store:
        """Return :meth:`store`; Airflow's name for it."""
        return self.store()

    def store(self) -> Store:
        """Return the open store.

        :raises StoreUnreachable: the database does not answer.
        :raises StoreFolderMissing: the folder of the connection's SQLite file does not exist.
        :raises SchemaOutOfDate: the tables in Postgres are missing or older than this package.
        :raises UnknownRevision: the tables are newer than this package, or older than release 0.1.
        """
        return self.installation.store

    @property
    def installation(self) -> Installation:
        """The services of this installation, on the open store; raises :class:`StoreError` as :meth:`store` does."""
        if self._installation is None:
            self._installation = Installation(
                open_store(self.url(), deadlines=self._deadlines, of_a_task=self._deadlines is None, renewed=self.url),
                self.settings.policy,
                self.settings.catalog_name,
                self.settings.interim_namespace,
                self._lock_wait,
                SparkOrphans(read_connection) if self._ends_orphans else None,
                self._image_target,
                self._policies_file(),
                self.settings.load_probes,
            )
        return self._installation

    def policies(self, root: Path | None = None, file: Path | str | None = None) -> Policies:
        """Return the maintenance policies.

        :param root: the folder that a relative path starts from; ``None`` for the DAGs folder.
        :param file: ``None`` for the file of ``[snowpack] policies``.
        :raises PoliciesNotFound: the file is missing, and it is not the default of the setting.
        :raises InvalidPolicies: the file has problems.
        """
        if file is not None:
            return Policies.load((root or dags_folder()) / file)
        return self._policies_file(root).policies()

    def _policies_file(self, root: Path | None = None) -> PoliciesFile:
        return PoliciesFile.of_setting(self.settings.policies, root or dags_folder())

    def _image_target(self) -> ImageTarget:
        conn_id = self.settings.image_registry_conn_id
        registry = None if conn_id is None else image_registry(read_connection(conn_id, REGISTRY))
        return ImageTarget(self.settings.image_builder, registry)

    def unchecked_store(self) -> Store:
        """Open another store without checking its tables, to inspect or upgrade them."""
        return Store(open_engine(self.url()))

    def jobs(self) -> Jobs:
        return self.installation.jobs

    def locks(self) -> TableLocks:
        return self.installation.locks

    def builds(self) -> BuildRegistry:
        return self.installation.builds

    def interim(self) -> InterimRegistry:
        return self.installation.interim

    def test_connection(self) -> tuple[bool, str]:
        """Check that the store answers and its tables are up to date; return the result and a message without secrets."""
        try:
            url = self.url()
        except SnowpackError as problem:
            return False, public_message(problem)
        try:
            with open_store(url, deadlines=Deadlines.within(self.settings.request_timeout)) as store:
                return True, f"The store at {store.where} answers, and its tables are up to date."
        except Exception as problem:  # noqa: BLE001 - any problem is shown to the user
            return False, public_message(problem)

    def close(self) -> None:
        """Write what is pending and close the connections."""
        if self._installation is not None:
            self._installation.close()
            self._installation = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _embedded_url(self) -> URL:
        from sqlalchemy.engine import URL

        refuse_on_remote_executor("store_conn_id", "a store", self.settings.store_path)
        # Airflow creates a missing AIRFLOW_HOME too.
        self.settings.store_path.parent.mkdir(parents=True, exist_ok=True)
        return URL.create("sqlite", database=str(self.settings.store_path))


def with_token(connection: Connection) -> Connection:
    """Return the connection; if its extra ``iam`` requests it, with a token of the cloud's identity service as the password."""
    if connection.extra_dejson.get("iam"):
        from airflow.providers.postgres.hooks.postgres import PostgresHook

        hook = PostgresHook(connection=connection)
        connection.login, connection.password, connection.port = hook.get_iam_token(connection)
        remember_secrets({"password": connection.password})
    return connection
