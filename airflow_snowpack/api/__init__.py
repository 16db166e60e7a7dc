"""The REST API and the pages: one app, mounted in Airflow's API server or served alone. It knows no Airflow.

    app = build_app(open_services, TokenAuth("…"))

Import :func:`build_app` only where it is called: FastAPI takes half a second.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.api.app import build_app as build_app
    from airflow_snowpack.api.auth import Auth as Auth
    from airflow_snowpack.api.auth import Forbidden as Forbidden
    from airflow_snowpack.api.auth import NotAuthenticated as NotAuthenticated
    from airflow_snowpack.api.auth import TokenAuth as TokenAuth
    from airflow_snowpack.api.auth import User as User
    from airflow_snowpack.api.services import Services as Services

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "app": ["build_app"],
        "auth": ["Auth", "Forbidden", "NotAuthenticated", "TokenAuth", "User"],
        "services": ["Services"],
    },
)
