"""What is wrong, in words that may leave the house: clients, and probes that nobody knows, need no address of the store.

A driver's message names users, ports, files and sometimes statements. Of it only this is told on: which of a few known things
happened, and the name of the host.
"""

from __future__ import annotations

import re

from airflow_snowpack.store import PoolerRefusesTransactions, SchemaOutOfDate, StoreFolderMissing, StoreTooSlow, UnknownRevision

KNOWN = (
    ("refused the connection", r"connection refused"),
    ("there is no way to it", r"no route to host|network is unreachable"),
    ("its name is not known", r"could not translate host name|failed to resolve host|name or service not known"),
    ("it did not answer in time", r"timeout|timed out|did not answer in time|QueuePool limit"),
    ("it refused the login", r"password authentication failed|no pg_hba\.conf entry|role .* does not exist"),
    ("its database does not exist", r"database .* does not exist"),
    ("it is starting or stopping", r"is starting up|is shutting down|terminating connection|in recovery mode"),
    ("it has no connection left", r"too many clients|remaining connection slots"),
    ("the connection broke", r"server closed the connection|connection (reset|was closed|already closed|is lost|not open)"),
    ("its file is locked by another program", r"database is locked"),
    ("its file cannot be opened", r"unable to open database file"),
    ("its file is no database, or damaged", r"file is not a database|malformed"),
    ("its disk is full", r"disk is full|no space left"),
    ("its disk fails or may not be written to", r"disk i/o error|readonly database|read-only"),
)
HOST = re.compile(r'connection to server at "([^"/]{1,100})"|failed to resolve host \'([^\']{1,100})\'')


def reason_in_words(error: BaseException) -> str:
    """Such as ``the server at db.example refused the connection``."""
    text = str(error)
    cause = getattr(error.__cause__, "orig", None) or getattr(error, "orig", None) or error
    found = next((words for words, pattern in KNOWN if re.search(pattern, text, re.IGNORECASE)), None)
    host = HOST.search(text)
    at = f"the server at {host.group(1) or host.group(2)}: " if host else ""
    return at + (found or f"it answered with {type(cause).__name__}")


def told_outside(error: Exception) -> str:
    """The error's sentence, without the address of the store."""
    known = PoolerRefusesTransactions | SchemaOutOfDate | StoreFolderMissing | StoreTooSlow | UnknownRevision
    return error.without_address if isinstance(error, known) else str(error)
