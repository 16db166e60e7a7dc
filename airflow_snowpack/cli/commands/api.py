"""``airflow snowpack api``: serve the REST API and its pages, for clients with the token.

The token is never an argument, because every user of the machine can read those. Without a token, nothing is served.
"""

import logging
import os
from argparse import Namespace
from functools import partial
from pathlib import Path

from airflow_snowpack.cli.errors import UnusableToken
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.hooks.services import open_services
from airflow_snowpack.settings import Settings

TOKEN_VARIABLE = "SNOWPACK_API_TOKEN"
LEAST_LENGTH = 16
HOW_TO_PASS = f", and pass it in a file (--token-file), in the environment variable {TOKEN_VARIABLE}, or as [snowpack] api_token."


@ends_cleanly
def serve(args: Namespace) -> None:
    token = read_token(args.token_file)
    settings = Settings.load()
    host, port = args.host or settings.api_host, args.port or settings.api_port
    # Airflow gave this logger a handler of its own, which uvicorn takes away, and kept it from the one that uvicorn brings.
    logging.getLogger("uvicorn.error").propagate = True
    from airflow_snowpack.api import TokenAuth, build_app
    from airflow_snowpack.api.app import serve as serve_app

    serve_app(
        build_app(partial(open_services, args.store_conn_id, args.catalog_conn_id), TokenAuth(token), settings.request_timeout),
        host,
        port,
    )


def read_token(file: str | None) -> str:
    """Return the token: from the file, the environment, or Airflow's configuration, whichever comes first.

    :raises UnusableToken: there is no token, or it is too short.
    """
    if file is not None:
        token = _read_file(file)
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip() or (Settings.load().api_token or "")
    if not token:
        raise UnusableToken("The API needs a token.", HOW_TO_PASS)
    if len(token) < LEAST_LENGTH:
        raise UnusableToken(f"The API's token has {len(token)} characters and needs at least {LEAST_LENGTH}.")
    return token


def _read_file(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UnusableToken(f"The token file {file} cannot be read: {problem}.", HOW_TO_PASS) from problem
