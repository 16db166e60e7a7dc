"""Authentication and permissions.

The app has an :class:`Auth`, which authenticates each request: Airflow's auth manager when it is mounted there (``plugin/``), one
token when it is served alone. A route is authorized by its parameters: the services (``Open``) need a user who may read, and
the actor of a change (``Acting``) one who may edit. A route that makes something start a DAG takes a ``Starting``, who may also
start that DAG; with an ``Acting`` in its place, no DAG is allowed. A route with none of them takes a :data:`Reader`.
"""

import hmac
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Annotated, Protocol
from urllib.parse import urlsplit

from fastapi import Depends, Request

from airflow_snowpack.errors import Kind, SnowpackError

SCOPE_KEY = "airflow_snowpack.user"


class NotAuthenticated(SnowpackError, kind=Kind.FORBIDDEN):
    """Authentication required."""


class Forbidden(SnowpackError, kind=Kind.FORBIDDEN):
    """Permission denied."""


def no_dag(dag_id: str) -> bool:
    """Return that a user may not start this DAG, or any other."""
    return False


def any_dag(dag_id: str) -> bool:
    """Return that a user may start this DAG, and any other."""
    return True


@dataclass(frozen=True, slots=True)
class User:
    """A user who may read.

    :param name: for the audit trail.
    :param may_edit: whether the user may also make changes.
    :param may_start: whether the user may start a DAG; may call a server, so not from the event loop.
    """

    name: str
    may_edit: bool
    may_start: Callable[[str], bool] = field(default=no_dag, compare=False)


class Auth(Protocol):
    """Authenticates requests.

    :ivar probes_are_open: whether ``/healthz`` and ``/readyz`` need no authentication: a Kubernetes probe sends no token.
    """

    probes_are_open: bool

    async def authenticate(self, request: Request) -> User:
        """Return the user of a request.

        :raises NotAuthenticated: the request has no valid credentials.
        :raises Forbidden: the user may not read, or another site's page requests a change with the user's cookie.
        """


COOKIE = "snowpack_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class TokenAuth:
    """One token with all permissions, for an app that is served alone.

    Programs send it as a bearer token. A browser cannot, so a person signs in to the pages once and gets a cookie. The cookie
    does not reveal the token, and permits changes only when one of our own pages sends it.

    :ivar session: the value of that cookie; another token has another one.
    """

    probes_are_open = True

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("An empty token would let everybody in.")
        self._token = token.encode()
        self.session = hmac.new(self._token, b"the pages of Snowpack", "sha256").hexdigest()

    def knows(self, token: str) -> bool:
        """Return whether it is the token, in constant time."""
        return secrets.compare_digest(token.strip().encode(), self._token)

    async def authenticate(self, request: Request) -> User:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.knows(given):
            return User("token", may_edit=True, may_start=any_dag)
        if not secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), self.session.encode()):
            raise NotAuthenticated(
                "The request carries no valid token. Sign in to the pages with the one that `airflow snowpack api` was started "
                "with; programs send it in the header `Authorization: Bearer <token>`."
            )
        if request.method not in SAFE_METHODS and not sent_by_own_page(request, own_hosts(request)):
            raise Forbidden("With the cookie of the pages only these pages may change something. Programs send the bearer token.")
        return User("token", may_edit=True, may_start=any_dag)


def sent_by_own_page(request: Request, hosts: Collection[str]) -> bool | None:
    """Return whether a page of these hosts sent the request; ``None`` when the headers do not show it, as with curl.

    Browsers write the headers, and no script can change them.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return None if origin is None else _host(origin) in hosts


def own_hosts(request: Request, base_url: str = "") -> frozenset[str]:
    """Return the hosts of our own pages, with their ports unless these are the default.

    ``X-Forwarded-Host`` is ignored: without a proxy in front, any client can set it.

    :param base_url: the address of the pages for browsers, for proxies that rewrite the host.
    """
    hosts = (request.headers.get("host", "").lower(), _host(base_url))
    return frozenset(host for host in hosts if host)


def _host(url: str) -> str:
    """Return host and port as browsers write them: in lower case, without the default port of the scheme."""
    parts = urlsplit(url)
    return parts.netloc.lower().removesuffix(DEFAULT_PORTS.get(parts.scheme, "\0"))


async def reader_of(request: Request) -> User:
    """Return the user, who may read. A request authenticates once: FastAPI's own tree of dependencies costs more.

    :raises NotAuthenticated, Forbidden: as :meth:`Auth.authenticate`.
    """
    known: User | None = request.scope.get(SCOPE_KEY)
    if known is None:
        auth: Auth = request.app.state.auth
        known = request.scope[SCOPE_KEY] = await auth.authenticate(request)
    return known


async def editor_of(request: Request) -> User:
    """Return the user, who may make changes.

    :raises Forbidden: the user may not.
    """
    user = await reader_of(request)
    if not user.may_edit:
        raise Forbidden(f"{user.name} may read, but not make changes. This needs a role with the permission to edit.")
    return user


Reader = Annotated[User, Depends(reader_of)]
