"""``airflow snowpack db upgrade|check``: the tables of the store.

Exit codes: 0 the tables are up to date, 1 they are not, or the store cannot be used; the reason is on stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.hooks.store import SnowpackHook

if TYPE_CHECKING:
    from argparse import Namespace


@ends_cleanly
def upgrade(args: Namespace) -> None:
    """Run the migrations that the store lacks."""
    from airflow_snowpack.store import upgrade_schema

    with SnowpackHook(args.store_conn_id) as hook, hook.unchecked_store() as store:
        upgrade_schema(store)
        print(f"The store at {store.where} is up to date.")


@ends_cleanly
def check(args: Namespace) -> None:
    """Tell whether the store can be used as it is."""
    from airflow_snowpack.store import check_schema

    with SnowpackHook(args.store_conn_id) as hook, hook.unchecked_store() as store:
        check_schema(store)
        print(f"The store at {store.where} is up to date.")
