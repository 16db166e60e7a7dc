"""Who asks, and what he may do.

The app takes an :class:`Auth` and asks it at every route: Airflow's auth manager when it is mounted there (``plugin/``), one
token when it is served alone. A route depends on :data:`Reader` or on :data:`Editor`, and on nothing else.

    @router.post("/jobs/{job_id}/cancel")
    def cancel(job_id: str, user: Editor, services: Open) -> …:
"""

import secrets
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from airflow_snowpack.errors import SnowpackError


class NotAuthenticated(SnowpackError):
    """Nobody is named, or not in a way that can be believed: 401."""


class Forbidden(SnowpackError):
    """The user is known and may not do this: 403."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may read.

    :param name: for the audit trail.
    :param may_edit: he may also change things.
    """

    name: str
    may_edit: bool


class Auth(Protocol):
    """Tells who asks.

    :ivar probes_are_open: whether ``/healthz`` and ``/readyz`` need nobody, as a Kubernetes probe sends no token.
    """

    probes_are_open: bool

    async def authenticate(self, request: Request) -> User:
        """Who asks.

        :raises NotAuthenticated: nobody that can be believed.
        :raises Forbidden: somebody who may not even read, or a change that another site's page asks for with the user's cookie.
        """


class TokenAuth:
    """One bearer token, for an app that is served alone; whoever has it may do everything."""

    probes_are_open = True

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("An empty token would let everybody in.")
        self._token = token.encode()

    async def authenticate(self, request: Request) -> User:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), self._token):
            raise NotAuthenticated("The request carries no valid token. Send the header `Authorization: Bearer <token>`.")
        return User("token", may_edit=True)


async def _reader(request: Request) -> User:
    auth: Auth = request.app.state.auth
    return await auth.authenticate(request)


async def _editor(user: Annotated[User, Depends(_reader)]) -> User:
    if not user.may_edit:
        raise Forbidden(f"{user.name} may read but not change anything here. Ask for a role that may edit.")
    return user


Reader = Annotated[User, Depends(_reader)]
Editor = Annotated[User, Depends(_editor)]
