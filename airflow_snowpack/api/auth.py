"""Who asks, and what he may do.

The app takes an :class:`Auth` and asks it at every route: Airflow's auth manager when it is mounted there (``plugin/``), one
token when it is served alone. A route depends on :data:`Reader` or on :data:`Editor`, and on nothing else.

    @router.post("/jobs/{job_id}/cancel")
    def cancel(job_id: str, user: Editor, services: Open) -> …:
"""

import hmac
import secrets
from dataclasses import dataclass
from typing import Annotated, Protocol
from urllib.parse import urlsplit

from fastapi import Depends, Request

from airflow_snowpack.errors import Kind, SnowpackError

ASKS = "airflow_snowpack.user"


class NotAuthenticated(SnowpackError, kind=Kind.FORBIDDEN):
    """Authentication required."""


class Forbidden(SnowpackError, kind=Kind.FORBIDDEN):
    """Permission denied."""


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


COOKIE = "snowpack_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class TokenAuth:
    """One token, for an app that is served alone; whoever has it may do everything.

    Programs send it as a bearer token. A browser cannot, so a person signs in to the pages with it once and then has a cookie,
    which tells nothing of the token and changes something only when one of our own pages sends it.

    :ivar session: the value of that cookie; another token has another one.
    """

    probes_are_open = True

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("An empty token would let everybody in.")
        self._token = token.encode()
        self.session = hmac.new(self._token, b"the pages of Snowpack", "sha256").hexdigest()

    def knows(self, token: str) -> bool:
        """Whether it is the token; takes as long for one that is nearly right."""
        return secrets.compare_digest(token.strip().encode(), self._token)

    async def authenticate(self, request: Request) -> User:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.knows(given):
            return User("token", may_edit=True)
        if not secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), self.session.encode()):
            raise NotAuthenticated(
                "The request carries no valid token. Sign in to the pages with the one that `airflow snowpack api` was started "
                "with; programs send it in the header `Authorization: Bearer <token>`."
            )
        if request.method not in SAFE_METHODS and not _sent_by_own_page(request):
            raise Forbidden("With the cookie of the pages only these pages may change something. Programs send the bearer token.")
        return User("token", may_edit=True)


def _sent_by_own_page(request: Request) -> bool:
    """What the browser says about the page behind the request; no script can make it lie."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")


async def reader_of(request: Request) -> User:
    """Who asks; he may read. A request asks this once, whatever depends on it: FastAPI's own tree of dependencies costs more.

    :raises NotAuthenticated, Forbidden: as :meth:`Auth.authenticate`.
    """
    known: User | None = request.scope.get(ASKS)
    if known is None:
        auth: Auth = request.app.state.auth
        known = request.scope[ASKS] = await auth.authenticate(request)
    return known


async def editor_of(request: Request) -> User:
    """Who asks; he may change things.

    :raises Forbidden: he may not.
    """
    user = await reader_of(request)
    if not user.may_edit:
        raise Forbidden(f"{user.name} may read but not change anything here. Ask for a role that may edit.")
    return user


Reader = Annotated[User, Depends(reader_of)]
Editor = Annotated[User, Depends(editor_of)]
