"""Reads a table with DuckDB's Iceberg extension, which shares no code with Spark or PyIceberg.

rows = read_with_duckdb(s3, "demo.flights", home)

It has an environment of its own: its extensions are on PyPI for 1.5.5 only, and tests use another DuckDB.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from examples.cluster.errors import ServerFailed
from examples.cluster.process import LOG_TAIL_LINES
from examples.cluster.seaweedfs import REGION, TABLE_BUCKET, SeaweedFS

if TYPE_CHECKING:
    import pyarrow as pa

ENVIRONMENT = Path(__file__).parents[2] / ".state" / "duckdb"
VERSION = "1.5.5"
EXTENSIONS = ("avro", "httpfs", "iceberg")
PACKAGES = (
    f"duckdb=={VERSION}",
    f"duckdb-extensions=={VERSION}",
    *(f"duckdb-extension-{each}=={VERSION}" for each in EXTENSIONS),
    "pytz",
)
LIMIT_S = 600.0
# The secrets come by the standard input: a command line is for everybody on the machine to read.
SCRIPT = """\
import json, sys
import duckdb
from duckdb_extensions import import_extension

given = json.load(sys.stdin)
connection = duckdb.connect()
for extension in given["extensions"]:
    import_extension(extension)
    connection.execute(f"LOAD {extension}")
for statement in given["statements"]:
    connection.execute(statement)
"""


def read_with_duckdb(s3: SeaweedFS, table: str, home: Path) -> pa.Table:
    """Read all rows of a table of the OAuth2 REST catalog.

    :param table: ``database.table``.
    :param home: a folder for the rows, which DuckDB writes as Parquet, and the log.
    :raises ServerFailed: DuckDB could not be installed, or failed.
    """
    home.mkdir(parents=True, exist_ok=True)
    log, rows = home / "log", home / "rows.parquet"
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / VERSION).exists():
        uv = Path(sys.executable).with_name("uv")
        _run([uv, "venv", "--quiet", "--clear", ENVIRONMENT], log)
        _run([uv, "pip", "install", "--quiet", "--python", python, *PACKAGES], log)
        (ENVIRONMENT / VERSION).touch()
    statements = [*_connection(s3), f"COPY (SELECT * FROM lake.{table}) TO '{rows}' (FORMAT parquet)"]
    _run([python, "-c", SCRIPT], log, json.dumps({"extensions": EXTENSIONS, "statements": statements}))
    return pq.read_table(rows)


def _connection(s3: SeaweedFS) -> list[str]:
    endpoint = s3.endpoint.removeprefix("http://")
    return [
        f"CREATE SECRET files (TYPE S3, KEY_ID '{s3.access_key}', SECRET '{s3.secret_key}', ENDPOINT '{endpoint}', "
        f"URL_STYLE 'path', USE_SSL false, REGION '{REGION}')",
        f"CREATE SECRET tables (TYPE ICEBERG, CLIENT_ID '{s3.access_key}', CLIENT_SECRET '{s3.secret_key}', "
        f"OAUTH2_SERVER_URI '{s3.token_url}', OAUTH2_SCOPE 'catalog')",
        f"ATTACH 's3://{TABLE_BUCKET}' AS lake (TYPE ICEBERG, SECRET tables, ENDPOINT '{s3.catalog_url}', "
        "ACCESS_DELEGATION_MODE 'none')",
    ]


def _run(command: list[Path | str], log: Path, text: str | None = None) -> None:
    with log.open("a") as output:
        done = subprocess.run(
            command, input=text, text=True, stdout=output, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False
        )
    if done.returncode:
        tail = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        raise ServerFailed("DuckDB", f"ended with exit code {done.returncode}", log, tail)
