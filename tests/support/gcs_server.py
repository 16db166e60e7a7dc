"""A server that speaks as Google Cloud Storage does (gcp-storage-emulator), in a thread of the test.

with gcs_server() as options:
    storage = Storage("gs://lake/flights", options)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from examples.cluster.process import free_port

BUCKET = "lake"


@contextmanager
def gcs_server() -> Iterator[dict[str, Any]]:
    """The options of a storage on a server that has the bucket ``lake``."""
    from gcp_storage_emulator.server import create_server

    logging.getLogger("gcp_storage_emulator").setLevel(logging.ERROR)
    port = free_port()
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    try:
        yield {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "anonymous": True}
    finally:
        server.stop()
