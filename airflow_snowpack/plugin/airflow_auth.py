"""Authenticates requests as Airflow's users: the auth manager identifies the user and decides on the permissions.

Reading needs the permission to read assets, every change the permission to create them (Airflow's own API requires that one to
record an asset event). Every auth manager has both; ``docs/security.md`` lists their names.

    app = build_app(open_services, AirflowAuth())

The invariant: Airflow's cookie alone never changes anything unless a page of Airflow sent the request. Browsers state the sender
in ``Sec-Fetch-Site`` (https and localhost) and in ``Origin`` (all methods but GET and HEAD), which scripts cannot forge. The
cookie's ``SameSite=Lax`` is not enough: it lets sibling sites (``evil.example.com`` for ``airflow.example.com``) through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode, urlsplit

from airflow.api_fastapi.app import API_ROOT_PATH, get_auth_manager
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.configuration import conf
from fastapi import HTTPException
from starlette.concurrency import run_in_threadpool

from airflow_snowpack.api.auth import Forbidden, NotAuthenticated, User
from airflow_snowpack.errors import Kind

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from fastapi import Request
    from fastapi.security import HTTPAuthorizationCredentials

KNOWN = "airflow_snowpack.user"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class LoginNeeded(NotAuthenticated, kind=Kind.FORBIDDEN):
    """Log in to Airflow to open this page."""

    def __init__(self, login_url: str) -> None:
        super().__init__("Log in to Airflow first.")
        self.login_url = login_url


class AirflowAuth:
    """Calls Airflow's auth manager, once per request."""

    probes_are_open = False

    async def authenticate(self, request: Request) -> User:
        """Return the user of Airflow's bearer token, or of its UI's cookie.

        :raises NotAuthenticated: both are missing, or invalid, expired or revoked; :class:`LoginNeeded` for a page.
        :raises Forbidden: the user may not read assets, or a page of another site sent the request.
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
            raise _not_authenticated(request, str(refused.detail)) from refused
        if not is_safe(request.method):
            _refuse_other_sites(request, token)
        # An auth manager may call a server of its own, as Keycloak's does.
        name, may_read, may_edit = await run_in_threadpool(_rights, user)
        if not may_read:
            raise Forbidden(f"{name} may not read assets, and these pages need that permission. Request a role that has it.")
        return User(name, may_edit=may_edit)


def _rights(user: BaseUser) -> tuple[str, bool, bool]:
    manager = get_auth_manager()
    may_read = manager.is_authorized_asset(method="GET", user=user)
    return user.get_name(), may_read, may_read and manager.is_authorized_asset(method="POST", user=user)


def _not_authenticated(request: Request, why: str) -> NotAuthenticated:
    path = request.scope["path"]
    below = path.removeprefix(request.scope.get("root_path", ""))
    if is_safe(request.method) and below.startswith("/ui") and "text/html" in request.headers.get("accept", ""):
        target = f"{path}?{request.url.query}" if request.url.query else path
        return LoginNeeded(f"{API_ROOT_PATH}api/v2/auth/login?{urlencode({'next': target})}")
    return NotAuthenticated(
        f"Airflow did not authenticate the request ({why.rstrip('.')}). Send the header `Authorization: Bearer <token>` with a "
        "token from POST /auth/token, or log in to Airflow's UI."
    )


def _refuse_other_sites(request: Request, token: HTTPAuthorizationCredentials | None) -> None:
    own = sent_by_own_page(request)
    if token is not None and not _everybody_is_admin():
        return  # browsers never add this header by themselves: the sender has the token
    if own is False or (own is None and token is None):
        page = request.headers.get("origin", "an unknown page")
        raise Forbidden(
            f"The request comes from {page!r}. With Airflow's cookie only Airflow's own pages may make changes "
            f"({', '.join(sorted(own_hosts(request)))}). Behind a proxy that rewrites the host, set [api] base_url; "
            "programs send a bearer token instead of the cookie."
        )


def _everybody_is_admin() -> bool:
    """Whether Airflow adds an admin's token to every request, also to those of other sites."""
    return bool(conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False))


def is_safe(method: str) -> bool:
    """Return whether the HTTP method changes nothing."""
    return method in SAFE_METHODS


def sent_by_own_page(request: Request) -> bool | None:
    """Return whether a page of Airflow sent the request; ``None`` when the headers do not show it, as with curl.

    An ``Origin`` is Airflow's when it equals the request's ``Host``, or the host of ``[api] base_url`` for proxies that rewrite
    the host. ``X-Forwarded-Host`` is ignored: without a proxy in front, any client can set it.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    if origin is None:
        return None
    return _host(origin) in own_hosts(request)


def own_hosts(request: Request) -> frozenset[str]:
    """Return Airflow's own hosts, with their ports unless these are the default."""
    from airflow.configuration import conf

    hosts = (request.headers.get("host", "").lower(), _host(conf.get("api", "base_url", fallback="")))
    return frozenset(host for host in hosts if host)


def _host(url: str) -> str:
    """Return host and port as browsers write them: in lower case, without the default port of the scheme."""
    parts = urlsplit(url)
    return parts.netloc.lower().removesuffix(DEFAULT_PORTS.get(parts.scheme, "\0"))
