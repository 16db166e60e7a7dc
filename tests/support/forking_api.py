"""The API in a child process, and a new child as soon as one is killed: ``python forking_api.py STORE_URL LAKE_FOLDER``.

It prints the port first and then the id of each child. All children listen on one socket, which this process keeps, so a client
finds the next one where the last one was. Imports are paid once, before the first fork.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import uvicorn
from api_process import build


def serve(store_url: str, lake: Path, listening: socket.socket) -> None:
    config = uvicorn.Config(build(store_url, lake), log_level="critical", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    store_url, lake = sys.argv[1:]
    build(store_url, Path(lake))
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listening.getsockname()[1], flush=True)
    while True:
        child = os.fork()
        if child == 0:
            try:
                serve(store_url, Path(lake), listening)
            finally:
                os._exit(1)
        print(child, flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
