"""Whether a page of Airflow itself sends a request, or a page of another site that uses the cookie of whoever looks at it.

A browser says so by itself and no script can make it lie: in ``Sec-Fetch-Site`` where the address is secure (https, or
localhost), and in ``Origin`` for everything but GET and HEAD. Airflow's cookie is ``SameSite=Lax``, which still lets sibling
sites (``evil.example.com`` for ``airflow.example.com``) through; hence this.

    sent_by_own_page(request)        # True, False, or None when the headers do not say (curl)
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.requests import Request

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def is_safe(method: str) -> bool:
    """Whether the method changes nothing."""
    return method in SAFE_METHODS


def sent_by_own_page(request: Request) -> bool | None:
    """What the browser says about the page behind a request; ``None`` when it says nothing.

    An ``Origin`` is ours when it is the request's own ``Host``, or that of ``[api] base_url``, for a proxy which rewrites the
    host. ``X-Forwarded-Host`` is not read: who does not sit behind a proxy could write anything into it.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    if origin is None:
        return None
    return _host(origin) in own_hosts(request)


def own_hosts(request: Request) -> frozenset[str]:
    """The hosts, with a port that is not the default, that Airflow is known by."""
    from airflow.configuration import conf

    hosts = (request.headers.get("host", "").lower(), _host(conf.get("api", "base_url", fallback="")))
    return frozenset(host for host in hosts if host)


def _host(url: str) -> str:
    """The host and port of an address as browsers write it: lower case, without the scheme's own port."""
    parts = urlsplit(url)
    return parts.netloc.lower().removesuffix(DEFAULT_PORTS.get(parts.scheme, "\0"))
