"""The Airflow plugin: the API and pages at ``/snowpack``, their entries in Airflow's navigation, and a listener.

Every Airflow process imports this package, including tasks; only the API server serves requests. Invariant: the import loads
nothing that Airflow has not already loaded. The app is built when the API server starts (:mod:`.mount`).

    GET /snowpack/jobs       # with Airflow's token or the cookie of its UI
    Browse → Snowpack        # and the tab "Snowpack" of every DAG
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.plugins_manager import AirflowPlugin

from airflow_snowpack.plugin.listener import StoreListener

if TYPE_CHECKING:
    from airflow_snowpack.plugin.mount import MountedApp


# A snow crystal of three crossed lines. The icons are data URLs: with files, every page of Airflow would wait for this app.
_ARMS = "M12 2v20M3.3 7l17.4 10M20.7 7L3.3 17"
_TIPS = "M9 3.5l3 3 3-3M9 20.5l3-3 3 3M3.5 11l4-1.5-1-4M20.5 13l-4 1.5 1 4M20.5 11l-4-1.5 1-4M3.5 13l4 1.5-1 4"


def _icon(colour: str) -> str:
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke-width="1.6" stroke-linecap="round" '
        f'stroke-linejoin="round" stroke="{colour}"><path d="{_ARMS}{_TIPS}"/></svg>'
    )
    return "data:image/svg+xml," + quote(drawn)


LIGHT = _icon("#3f3f46")
DARK = _icon("#d4d4d8")


def _view(**where: str) -> dict[str, str]:
    """Return an entry of Airflow's navigation, with a relative address that Airflow's UI resolves below its base path."""
    return {"name": "Snowpack", "icon": LIGHT, "icon_dark_mode": DARK, **where}


class _Apps:
    """The apps that Airflow's API server mounts. Only that process, which has loaded FastAPI by then, reads them."""

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
    # Airflow declares these as lists of the instance, but reads them from the class.
    listeners = [StoreListener()]  # noqa: RUF012 - as above
    external_views = [  # noqa: RUF012 - as above
        _view(href="snowpack/ui/", destination="nav", category="browse", url_route="snowpack"),
        _view(href="snowpack/ui/jobs?dag_id={DAG_ID}", destination="dag", url_route="snowpack-jobs"),
    ]
