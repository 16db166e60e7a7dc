"""Names in paths, as the client wrote them.

A server decodes the path before it is routed, so that ``/tables/..%2Fx/y`` would be another route than the one that was asked
for. Here an encoded slash stays encoded: it reaches the route as a part of the name, which refuses it. And a name may be empty
for the same reason: it is a bad name, not a route that does not exist.

    APIRouter().get("/tables/{database:name}/{table:name}")
"""

from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send


class NameConvertor(Convertor[str]):
    """One level of a path, which may be empty."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", NameConvertor())


class EncodedSlashes:
    """Decodes the path anew, all but its encoded slashes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes | None = scope.get("raw_path")
        if raw is not None and (b"%2f" in raw or b"%2F" in raw):
            kept = raw.split(b"?", 1)[0].replace(b"%2F", b"%252F").replace(b"%2f", b"%252f")
            scope = {**scope, "path": unquote(kept.decode("latin-1"))}
        await self._app(scope, receive, send)
