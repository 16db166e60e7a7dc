"""A real S3 server (moto's) in a thread of the test, which may look at each request first, hold it up, or have it fail.

    with s3_server() as options:
        storage = Storage("s3://lake/flights", options)

    with s3_server(before=lambda request: next(asked) % 3 != 0) as options: ...       # every third request fails

A request that fails is answered with 503 SlowDown, as S3 does when it is busy, before the server has done anything about it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

BUCKET = "lake"
BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@dataclass(frozen=True)
class Request:
    """What a client asks for.

    :param path: ``/bucket/key``.
    :param range: of the object, such as ``bytes=0-99``; ``None`` for all of it.
    """

    method: str
    path: str
    client_port: int
    range: str | None = None

    def client(self) -> psutil.Process:
        """The process that asks; it is one of this machine."""
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == self.client_port and connection.pid:
                return psutil.Process(connection.pid)
        raise AssertionError(f"nobody has the port {self.client_port}")


def access_to(options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties by which PyIceberg reaches the server."""
    return {
        "s3.endpoint": f"{options['scheme']}://{options['endpoint_override']}",
        "s3.access-key-id": options["access_key"],
        "s3.secret-access-key": options["secret_key"],
        "s3.region": options["region"],
    }


def s3_client(options: Mapping[str, str]) -> Any:
    """Return a client of the server, for what a test does beside the code under test."""
    from botocore.session import get_session

    return get_session().create_client(
        "s3",
        endpoint_url=f"{options['scheme']}://{options['endpoint_override']}",
        aws_access_key_id=options["access_key"],
        aws_secret_access_key=options["secret_key"],
        region_name=options["region"],
    )


@contextmanager
def s3_server(before: Callable[[Request], bool] = lambda request: True) -> Iterator[dict[str, Any]]:
    """The options of a storage on a server that has the bucket ``lake``.

    :param before: called with each request, in a thread of its own; ``False`` makes it fail.
    """
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3 import s3_backends
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], int(environ["REMOTE_PORT"]), environ.get("HTTP_RANGE"))
        if not before(request):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(BUSY)))])
            return [BUSY]
        answer: Iterable[bytes] = moto(environ, start_response)
        return answer

    s3 = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    s3.reset()
    s3.create_bucket(BUCKET, "us-east-1")
    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)  # how soon it notices that it is to stop
    thread.start()
    try:
        yield {
            "endpoint_override": f"127.0.0.1:{server.server_port}",
            "scheme": "http",
            "access_key": "tester",
            "secret_key": "tester",
            "region": "us-east-1",
        }
    finally:
        server.shutdown()
        thread.join()
        s3.reset()
