"""Airflow's REST API for the commands that need it: no command is a task, so that none can ask Airflow in any other way.

with airflow_rest(args, settings, "which tasks have finished") as rest: ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.cli.errors import NoAirflow
from airflow_snowpack.hooks.api_client import AirflowRest

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_snowpack.settings import Settings


def airflow_rest(args: Namespace, settings: Settings, wanted: str) -> AirflowRest:
    """The client of the connection that ``--airflow-conn-id`` or the setting names.

    :param wanted: what Airflow is to be asked, for people.
    :raises NoAirflow: none is named.
    :raises ConnectionNotFound, IncompleteConnection: it is not there, or lacks what is needed.
    """
    conn_id = args.airflow_conn_id or settings.airflow_conn_id
    if conn_id is None:
        raise NoAirflow(wanted)
    return AirflowRest.from_connection(conn_id)
