"""Reads an Airflow connection and says clearly when there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

from airflow_snowpack.hooks.errors import ConnectionNotFound

if TYPE_CHECKING:
    from airflow.sdk import Connection


def read_connection(conn_id: str, purpose: str) -> Connection:
    """:raises ConnectionNotFound: there is no such connection."""
    try:
        return BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        raise ConnectionNotFound(conn_id, purpose, error) from error


async def read_connection_in_trigger(conn_id: str, purpose: str) -> Connection:
    """The same inside of a trigger, where the blocking way would stop the event loop that it waits for.

    :raises ConnectionNotFound: there is no such connection.
    """
    try:
        return await BaseHook.aget_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        raise ConnectionNotFound(conn_id, purpose, error) from error
