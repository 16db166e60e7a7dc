"""The hook of the storage that builds are kept in: a folder, S3, Google Cloud Storage, Azure, or what else fsspec opens.

    hook = BuildStorageHook("minio")
    storage = hook.storage("s3://lake/builds/flights_by_tail")

A connection of the type ``aws``, ``google_cloud_platform``, ``wasb`` or ``adls`` is read as Airflow's providers read it, without
them; the extras of a ``generic`` one are the storage's options as they are. Without a connection the machine's own identity
counts. The invariant: secrets are masked in logs before anything else is done with them, and an address never holds one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_snowpack.hooks.connections import read_connection
from airflow_snowpack.hooks.storage_connection import LOCAL, PURPOSE, storage_options
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.builds.storage import Storage

SECRET_NAMES = ("key", "secret", "token", "password", "credential", "connection_string")


class BuildStorageHook(BaseHook):
    """Opens storages.

    :param storage_conn_id: a connection of the type ``aws``, ``google_cloud_platform``, ``wasb``, ``adls`` or ``generic``;
        ``None`` for what ``[snowpack] builds_conn_id`` says. A local folder needs none, and gets none.
    """

    conn_name_attr = "storage_conn_id"
    hook_name = "Storage of builds"

    def __init__(self, storage_conn_id: str | None = None) -> None:
        super().__init__()
        self._given_conn_id = storage_conn_id

    @cached_property
    def settings(self) -> Settings:
        """:raises InvalidSetting: as :meth:`Settings.load`."""
        return Settings.load()

    def url_of(self, dataset: str) -> str:
        """Where a dataset goes when nobody says where: a folder of its name below ``[snowpack] builds_url``.

        :raises InvalidBuild: it is not the name of a dataset.
        """
        from airflow_snowpack.builds.layout import check_dataset

        return f"{self.settings.builds_url.rstrip('/')}/{check_dataset(dataset)}"

    def options(self, url: str) -> Mapping[str, Any]:
        """The storage's options for a URL; their secrets are masked from now on.

        :raises ConnectionNotFound, UnsuitableConnection, UnusableExtra, IncompleteConnection: from the Airflow connection.
        :raises InvalidBuild: a password, a key or a query stands in the URL.
        """
        from airflow_snowpack.builds.storage import refuse_secrets

        refuse_secrets(url)
        conn_id = self._given_conn_id or self.settings.builds_conn_id
        if urlsplit(url).scheme in LOCAL or conn_id is None:
            return {}
        options = storage_options(read_connection(conn_id, PURPOSE), url)
        _mask(options)
        return options

    def storage(self, url: str) -> Storage:
        """The storage at a URL.

        :raises InvalidBuild: nothing can be opened there.
        """
        from airflow_snowpack.builds.storage import Storage

        return Storage(url, self.options(url))

    def get_conn(self) -> Storage:
        """The storage at ``[snowpack] builds_url``: the name that Airflow's tools look for."""
        return self.storage(self.settings.builds_url)


def _mask(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if isinstance(value, dict):
            _mask(value)
        elif value and any(part in name.lower() for part in SECRET_NAMES):
            mask_secret(str(value))
