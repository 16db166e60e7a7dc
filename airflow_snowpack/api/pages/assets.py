"""The stylesheet, the scripts and the icon, as they lie beside this file.

Their addresses carry a digest of what is in them, so a browser keeps them for good and still sees a new version at once. They
are public, because the sign-in page needs them too; in Airflow the access guard runs before them.
"""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Response

from airflow_snowpack.api.routing import Threaded

KINDS: Final = {"page.css": "text/css", "page.js": "text/javascript", "theme.js": "text/javascript", "icon.svg": "image/svg+xml"}
FOR_GOOD = "private, max-age=31536000, immutable"

router = APIRouter(route_class=Threaded)


@cache
def content(name: str) -> bytes:
    """What is in a file of ``static/``."""
    return files("airflow_snowpack.api.pages").joinpath("static", name).read_bytes()


def versioned(name: str) -> str:
    """The name with the digest, for a link."""
    return f"{name}?v={sha256(content(name)).hexdigest()[:12]}"


@router.get("/static/{name}")
def static(name: str, v: str = "") -> Response:
    if name not in KINDS:
        return Response("There is no such file.", 404, media_type="text/plain")
    kept = {"Cache-Control": FOR_GOOD} if v else {}
    return Response(content(name), media_type=KINDS[name], headers=kept)
