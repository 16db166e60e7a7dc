"""What Airflow loads: the API and the pages at ``/snowpack``, the pages' places in Airflow's navigation, and a listener.

Every Airflow process imports this package, tasks included, and only the API server answers requests. The invariant: importing it
loads nothing that Airflow has not loaded already. The app is built when the API server starts (:mod:`.mount`).

    GET /snowpack/jobs       # with Airflow's token or the cookie of its UI
    Browse → Snowpack        # and the tab "Snowpack" of every DAG
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from airflow_snowpack.plugin.icons import DARK, LIGHT
from airflow_snowpack.plugin.listener import StoreListener

if TYPE_CHECKING:
    from airflow_snowpack.plugin.mount import MountedApp


class _Apps:
    """The apps that Airflow's API server mounts; it alone reads them, and has FastAPI loaded by then."""

    def __get__(self, plugin: object, owner: type | None = None) -> list[dict[str, Any]]:
        return [{"app": _mounted(), "url_prefix": "/snowpack", "name": "Snowpack"}]


@cache
def _mounted() -> MountedApp:
    from airflow_snowpack.plugin.mount import MountedApp

    return MountedApp()


class SnowpackPlugin(AirflowPlugin):
    """The plugin, found by the entry point ``airflow.plugins``."""

    name = "snowpack"
    fastapi_apps = _Apps()
    # Airflow declares these as lists of the instance, and reads them from the class.
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
