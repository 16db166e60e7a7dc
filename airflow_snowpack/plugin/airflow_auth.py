"""Airflow's users, as the app asks for them: the auth manager says who it is, and what he may do.

Reading takes the right to read assets, changing anything the right to create them (Airflow's own API asks for that one where a
table is declared to have changed). Every auth manager knows both: see ``docs/security.md`` for what they are called in each.

    app = build_app(open_services, AirflowAuth())

The invariant: Airflow's cookie alone never changes anything unless a page of Airflow sent it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from airflow.api_fastapi.app import API_ROOT_PATH, get_auth_manager
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.configuration import conf
from fastapi import HTTPException
from starlette.concurrency import run_in_threadpool

from airflow_snowpack.api.auth import Forbidden, NotAuthenticated, User
from airflow_snowpack.errors import Kind
from airflow_snowpack.plugin.same_site import is_safe, own_hosts, sent_by_own_page

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from fastapi import Request
    from fastapi.security import HTTPAuthorizationCredentials

KNOWN = "airflow_snowpack.user"


class LoginNeeded(NotAuthenticated, kind=Kind.FORBIDDEN):
    """Log in to Airflow to open this page."""

    def __init__(self, login_url: str) -> None:
        super().__init__("Log in to Airflow first.")
        self.login_url = login_url


class AirflowAuth:
    """Asks Airflow's auth manager, once for each request."""

    probes_are_open = False

    async def authenticate(self, request: Request) -> User:
        """Who asks, by Airflow's bearer token or by the cookie of its UI.

        :raises NotAuthenticated: neither is there, or it is wrong, expired or revoked; :class:`LoginNeeded` for a page.
        :raises Forbidden: the user may not read assets, or another site's page sent the request.
        """
        known = cast("User | None", request.scope.get(KNOWN))
        if known is None:
            known = request.scope[KNOWN] = await self._ask_airflow(request)
        return known

    async def _ask_airflow(self, request: Request) -> User:
        token = await bearer_scheme(request)
        try:
            user = await get_user(request, None, token)
        except HTTPException as refused:
            raise _nobody(request, str(refused.detail)) from refused
        if not is_safe(request.method):
            _refuse_other_sites(request, token)
        # An auth manager may ask a server of its own, as Keycloak's does.
        name, may_read, may_edit = await run_in_threadpool(_rights, user)
        if not may_read:
            raise Forbidden(f"{name} may not read here. It takes the right to read assets: ask for a role that has it.")
        return User(name, may_edit=may_edit)


def _rights(user: BaseUser) -> tuple[str, bool, bool]:
    manager = get_auth_manager()
    may_read = manager.is_authorized_asset(method="GET", user=user)
    return user.get_name(), may_read, may_read and manager.is_authorized_asset(method="POST", user=user)


def _nobody(request: Request, why: str) -> NotAuthenticated:
    path = request.scope["path"]
    below = path.removeprefix(request.scope.get("root_path", ""))
    if is_safe(request.method) and below.startswith("/ui") and "text/html" in request.headers.get("accept", ""):
        target = f"{path}?{request.url.query}" if request.url.query else path
        return LoginNeeded(f"{API_ROOT_PATH}api/v2/auth/login?{urlencode({'next': target})}")
    return NotAuthenticated(
        f"Airflow does not know who asks ({why.rstrip('.')}). Send the header `Authorization: Bearer <token>` with a token from "
        "POST /auth/token, or log in to Airflow's UI."
    )


def _refuse_other_sites(request: Request, token: HTTPAuthorizationCredentials | None) -> None:
    own = sent_by_own_page(request)
    if token is not None and not _tokens_are_given_away():
        return  # a browser adds no such header by itself: whoever sends it has the token
    if own is False or (own is None and token is None):
        page = request.headers.get("origin", "an unknown page")
        raise Forbidden(
            f"The request comes from {page!r}, and with Airflow's cookie only Airflow's own pages may change something "
            f"(known as {', '.join(sorted(own_hosts(request)))}). Behind a proxy that rewrites the host, set [api] base_url; "
            "programs send a bearer token instead of the cookie."
        )


def _tokens_are_given_away() -> bool:
    """Whether Airflow puts an admin's token into every request, whoever sends it."""
    return bool(conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False))
