"""What Airflow loads: the API and the pages at ``/snowpack``, the pages' places in Airflow's navigation, and a listener.

Every Airflow process imports this package, tasks included, and only the API server answers requests. The invariant: importing it
loads nothing that Airflow has not loaded already; the app is built by the first request (:mod:`airflow_snowpack.plugin.mount`).

    GET /snowpack/jobs       # with Airflow's token or the cookie of its UI
    Browse → Snowpack        # and the tab "Snowpack" of every DAG
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_snowpack.plugin.icons import DARK, LIGHT
from airflow_snowpack.plugin.listener import StoreListener
from airflow_snowpack.plugin.mount import LazyApp


class SnowpackPlugin(AirflowPlugin):
    """The plugin, found by the entry point ``airflow.plugins``."""

    name = "snowpack"
    # Airflow declares both as lists of the instance, and reads them from the class.
    fastapi_apps = [{"app": LazyApp(), "url_prefix": "/snowpack", "name": "Snowpack"}]  # noqa: RUF012 - as said above
    listeners = [StoreListener()]  # noqa: RUF012 - as said above
    # The addresses are relative: Airflow's UI resolves them below its own base path.
    external_views = [  # noqa: RUF012 - as said above
        {
            "name": "Snowpack",
            "href": "snowpack/ui/",
            "destination": "nav",
            "category": "browse",
            "url_route": "snowpack",
            "icon": LIGHT,
            "icon_dark_mode": DARK,
        },
        {
            "name": "Snowpack",
            "href": "snowpack/ui/jobs?dag_id={DAG_ID}",
            "destination": "dag",
            "url_route": "snowpack-jobs",
            "icon": LIGHT,
            "icon_dark_mode": DARK,
        },
    ]
