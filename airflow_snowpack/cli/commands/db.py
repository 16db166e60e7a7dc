"""``airflow snowpack db``: the tables of the store: upgrade, check and prune.

Exit codes of ``db check``: 0 when the tables are up to date, or the embedded file does not exist yet; 1 when they are not, or the
store cannot be used. The reason is on stderr.
"""

from argparse import Namespace
from pathlib import Path

from sqlalchemy.engine import URL

from airflow_snowpack.cli.changes import confirm
from airflow_snowpack.cli.context import CommandContext, command
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.cli.output import is_for_people, log_to_stderr, note, print_list
from airflow_snowpack.cli.values import read_period
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.humanize import duration, plural
from airflow_snowpack.store import check_schema, upgrade_schema
from airflow_snowpack.store.opening import check_folder
from airflow_snowpack.wire.listing import Column, Listing


@ends_cleanly
def upgrade(args: Namespace) -> None:
    log_to_stderr()
    with SnowpackHook(args.store_conn_id) as hook, hook.unchecked_store() as store:
        upgrade_schema(store)
        print(f"The store at {store.where} is up to date.")


@ends_cleanly
def check(args: Namespace) -> None:
    with SnowpackHook(args.store_conn_id) as hook:
        url = hook.url()
        check_folder(url)
        path = _missing_file(url)
        if path is not None:
            print(f"The store does not exist yet. Its first use creates {path} with all tables.")
            return
        with hook.unchecked_store() as store:
            check_schema(store)
            print(f"The store at {store.where} is up to date.")


def _missing_file(url: URL) -> Path | None:
    """Return the embedded file if it does not exist yet; the check must not create it."""
    path = Path(url.database or "")
    return path if url.get_backend_name() == "sqlite" and not path.exists() else None


@command
def prune(args: Namespace, here: CommandContext) -> None:
    older_than = read_period("--older-than", args.older_than)
    if not args.dry_run:
        confirm(f"Delete the rows that are older than {duration(older_than)} and no longer needed?", yes=args.yes)
    rows, now = here.installation.prune(older_than, here.actor, dry_run=args.dry_run), here.now
    name = "would_delete" if args.dry_run else "deleted"
    counts: Listing[tuple[str, int]] = Listing(
        "rows",
        lambda row: {"table": row[0], name: row[1]},
        (Column("table", lambda row: row[0]), Column("rows", lambda row: row[1])),
    )
    print_list(args.output, counts, [*rows.items()], now, empty="No rows are that old.")
    if is_for_people(args.output):
        note(f"{'Would delete' if args.dry_run else 'Deleted'} {plural(rows.total(), 'row')}.")
