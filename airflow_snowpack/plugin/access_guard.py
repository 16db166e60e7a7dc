"""Authorizes every request to the mounted app before any route does.

Routes check the user as well; the guard also covers what has no route: static files, unknown addresses, methods that are not
allowed. The invariants: an unauthenticated client learns nothing but that, and a user who may only read sends no method that can
change something, whatever a route allows.

    guarded = AccessGuard(build_app(open_services, AirflowAuth()))
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from airflow_snowpack.api.auth import Forbidden, NotAuthenticated
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.plugin.airflow_auth import LoginNeeded, is_safe

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

    from airflow_snowpack.api.auth import Auth


class AccessGuard:
    """Passes authorized requests to the app and answers all others.

    :param app: made by ``build_app``; its exception handlers render the refusals.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._auth: Auth = app.state.auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # the app has no websockets
            return
        request = Request(scope, receive)
        try:
            await self._admit(request)
        except SnowpackError as refusal:
            answer = await self._refuse(request, refusal)
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _admit(self, request: Request) -> None:
        user = await self._auth.authenticate(request)
        if not (is_safe(request.method) or user.may_edit):
            raise Forbidden(f"{user.name} may read but not change anything here. Request a role that may edit.")

    async def _refuse(self, request: Request, refusal: SnowpackError) -> Response:
        if isinstance(refusal, LoginNeeded):
            return RedirectResponse(refusal.login_url, status_code=302)
        handlers: Any = self._app.exception_handlers
        handler = next(handlers[kind] for kind in type(refusal).__mro__ if kind in handlers)
        answered = handler(request, refusal)
        answer: Response = await answered if isawaitable(answered) else answered
        if isinstance(refusal, NotAuthenticated):
            answer.headers.setdefault("WWW-Authenticate", "Bearer")
        return answer
