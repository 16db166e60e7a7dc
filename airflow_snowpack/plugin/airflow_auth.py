"""Authenticate requests as Airflow's users: the auth manager identifies the user and decides on the permissions.

Reading requires the permission to read assets, every change the permission to create them (which Airflow's API requires to record
an asset event), and starting a DAG also the permission to trigger that DAG. ``docs/security.md`` lists their names.

    guarded = AccessGuard(build_app(open_services, AirflowAuth()))

Routes check the user, too; the guard also covers what has no route: static files, unknown addresses, methods that are not
allowed. Invariants: an unauthenticated client learns nothing but that it is one, and a read-only user sends no method that can
change something, whatever a route allows. Airflow's cookie alone changes nothing unless a page of Airflow sent the request.
Browsers state the sender in ``Sec-Fetch-Site`` (https and localhost) and in ``Origin`` (all methods but GET and HEAD), which
scripts cannot forge. ``SameSite=Lax`` does not suffice: it allows sibling sites (``evil.example.com``).
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from airflow.api_fastapi.app import API_ROOT_PATH, get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user, requires_access_dag
from airflow.configuration import conf
from fastapi import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from airflow_snowpack.api.auth import (
    SAFE_METHODS,
    SCOPE_KEY,
    Auth,
    Forbidden,
    NotAuthenticated,
    User,
    own_hosts,
    sent_by_own_page,
)
from airflow_snowpack.api.problems import problem_of
from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.store.deadlines import REQUEST_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from fastapi import FastAPI
    from fastapi.security import HTTPAuthorizationCredentials
    from starlette.types import Receive, Scope, Send

log = logging.getLogger(__name__)

AUTH_SHARE = 0.4
AUTH_THREADS = 16


class AuthManagerDown(SnowpackError, kind=Kind.UNAVAILABLE):
    """Airflow's auth manager does not answer."""

    def __init__(self, problem: Exception) -> None:
        why = "did not answer in time" if isinstance(problem, TimeoutError) else f"failed with {type(problem).__name__}"
        super().__init__(f"Airflow's auth manager {why}. The request changed nothing. Try again soon.")


class LoginNeeded(NotAuthenticated, kind=Kind.FORBIDDEN):
    """Log in to Airflow to open this page."""

    def __init__(self, login_url: str) -> None:
        super().__init__("Log in to Airflow first.")
        self.login_url = login_url


class AirflowAuth:
    """Calls Airflow's auth manager in separate threads, because it may call a server, as Keycloak's does.

    :param timeout: the time limit of a request; each answer of the auth manager gets a share of it.
    """

    probes_are_open = False

    def __init__(self, timeout: timedelta = REQUEST_TIMEOUT) -> None:
        self._patience_s = (timeout * AUTH_SHARE).total_seconds()
        self._rights = ThreadPoolExecutor(AUTH_THREADS, "snowpack-auth")
        self._dags = ThreadPoolExecutor(AUTH_THREADS, "snowpack-auth-dags")  # if it hangs for a DAG, others can still read

    async def authenticate(self, request: Request) -> User:
        """Return the user of Airflow's bearer token, or of its UI's cookie.

        :raises NotAuthenticated: both are missing, or invalid, expired or revoked; :class:`LoginNeeded` for a page.
        :raises Forbidden: the user may not read assets, or a page of another site sent the request.
        :raises AuthManagerDown: the auth manager fails, or does not answer in time.
        """
        token = await bearer_scheme(request)
        try:
            user = await get_user(request, None, token)
        except HTTPException as refused:
            raise _not_authenticated(request, str(refused.detail)) from refused
        if request.method not in SAFE_METHODS:
            _refuse_other_sites(request, token)
        with _auth_manager_errors():
            rights = asyncio.wrap_future(self._rights.submit(_rights, user))
            name, may_read, may_edit = await asyncio.wait_for(rights, self._patience_s)
        if not may_read:
            raise Forbidden(f"{name} may not read assets, and these pages need that permission. Request a role that has it.")
        return User(name, may_edit=may_edit, may_start=partial(self._may_start, request, user))

    def _may_start(self, request: Request, user: BaseUser, dag_id: str) -> bool:
        """Return whether the user may trigger the DAG; raises :class:`AuthManagerDown` like :meth:`authenticate`."""
        answer = self._dags.submit(_may_start, request, user, dag_id)
        try:
            with _auth_manager_errors():
                return answer.result(self._patience_s)
        finally:
            answer.cancel()  # if it still waits for a thread


@contextmanager
def _auth_manager_errors() -> Iterator[None]:
    try:
        yield
    except HTTPException:
        raise
    except Exception as problem:
        log.warning("A request was refused because Airflow's auth manager did not answer.", exc_info=True)
        raise AuthManagerDown(problem) from problem


def _rights(user: BaseUser) -> tuple[str, bool, bool]:
    manager = get_auth_manager()
    may_read = manager.is_authorized_asset(method="GET", user=user)
    return user.get_name(), may_read, may_read and manager.is_authorized_asset(method="POST", user=user)


def _may_start(request: Request, user: BaseUser, dag_id: str) -> bool:
    """Return whether the user may trigger the DAG, as decided by Airflow's route."""
    try:
        requires_access_dag("POST", DagAccessEntity.RUN, dag_id)(request, user)
    except HTTPException as refused:
        if refused.status_code != HTTPStatus.FORBIDDEN:
            raise
        return False
    return True


def _not_authenticated(request: Request, why: str) -> NotAuthenticated:
    path = request.scope["path"]
    below = path.removeprefix(request.scope.get("root_path", ""))
    if request.method in SAFE_METHODS and below.startswith("/ui") and "text/html" in request.headers.get("accept", ""):
        target = f"{path}?{request.url.query}" if request.url.query else path
        return LoginNeeded(f"{API_ROOT_PATH}api/v2/auth/login?{urlencode({'next': target})}")
    return NotAuthenticated(
        f"Airflow did not authenticate the request ({why.rstrip('.')}). Send the header `Authorization: Bearer <token>` with a "
        "token from POST /auth/token, or log in to Airflow's UI."
    )


def _refuse_other_sites(request: Request, token: HTTPAuthorizationCredentials | None) -> None:
    hosts = own_hosts(request, conf.get("api", "base_url", fallback=""))
    own = sent_by_own_page(request, hosts)
    # Airflow may add an admin's token to every request, including those of other sites.
    if token is not None and not conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False):
        return  # browsers never add this header by themselves: the sender has the token
    if own is False or (own is None and token is None):
        page = request.headers.get("origin", "an unknown page")
        raise Forbidden(
            f"The request comes from {page!r}. With Airflow's cookie only Airflow's own pages may make changes "
            f"({', '.join(sorted(hosts))}). Behind a proxy that rewrites the host, set [api] base_url; "
            "programs send a bearer token instead of the cookie."
        )


class AccessGuard:
    """Passes authorized requests to the app, made by ``build_app``, and answers all others."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._auth: Auth = app.state.auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # the app has no websockets
            return
        refusal = await self._refusal(Request(scope, receive))
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, request: Request) -> Response | None:
        """Return the response to a request that must not pass."""
        try:
            user = request.scope[SCOPE_KEY] = await self._auth.authenticate(request)
            if request.method not in SAFE_METHODS and not user.may_edit:
                raise Forbidden(f"{user.name} may read but not change anything here. Request a role that may edit.")
        except LoginNeeded as needed:
            return RedirectResponse(needed.login_url, status_code=302)
        except SnowpackError as refusal:
            return problem_of(refusal)
        return None
