"""The commands of ``airflow snowpack``, as Airflow's command line wants them declared.

Every ``airflow`` call imports this module, so the commands themselves load only when they are called.
"""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

STORE_CONN_ID = Arg(  # type: ignore[no-untyped-call]  # Airflow leaves the constructor untyped
    ("--store-conn-id",),
    help="The Airflow connection of the store; without it, what [snowpack] store_conn_id says, or the embedded file",
)

DB_COMMANDS = (
    ActionCommand(
        name="upgrade",
        help="Bring the store's tables to the revision that this version needs",
        func=lazy_load_command("airflow_snowpack.cli.db.upgrade"),
        args=(STORE_CONN_ID,),
    ),
    ActionCommand(
        name="check",
        help="Tell whether the store answers and its tables are up to date; exit code 1 when not",
        func=lazy_load_command("airflow_snowpack.cli.db.check"),
        args=(STORE_CONN_ID,),
    ),
)


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its own commands."""
    return [
        GroupCommand(
            name="snowpack",
            help="Maintain Apache Iceberg tables",
            subcommands=(GroupCommand(name="db", help="The database of jobs, locks and claims", subcommands=DB_COMMANDS),),
        )
    ]
