"""``airflow snowpack db upgrade|check``: the tables of the store.

Exit codes: 0 the tables are up to date, or the embedded file is still to be made by its first use; 1 they are not, or the
store cannot be used; the reason is on stderr.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import log_to_stderr
from airflow_snowpack.hooks.store import SnowpackHook

if TYPE_CHECKING:
    from argparse import Namespace

    from sqlalchemy.engine import URL


@ends_cleanly
def upgrade(args: Namespace) -> None:
    """Run the migrations that the store lacks."""
    from airflow_snowpack.store import upgrade_schema

    log_to_stderr()
    with SnowpackHook(args.store_conn_id) as hook, hook.unchecked_store() as store:
        upgrade_schema(store)
        print(f"The store at {store.where} is up to date.")


@ends_cleanly
def check(args: Namespace) -> None:
    """Tell whether the store can be used as it is."""
    from airflow_snowpack.store import check_schema
    from airflow_snowpack.store.opening import check_folder

    with SnowpackHook(args.store_conn_id) as hook:
        url = hook.url()
        check_folder(url)
        path = _file_to_come(url)
        if path is not None:
            print(f"There is no store yet. {path} is made with its tables when it is first used.")
            return
        with hook.unchecked_store() as store:
            check_schema(store)
            print(f"The store at {store.where} is up to date.")


def _file_to_come(url: URL) -> Path | None:
    """The embedded file, when it does not exist yet; looking must not make it."""
    path = Path(url.database or "")
    return path if url.get_backend_name() == "sqlite" and not path.exists() else None
