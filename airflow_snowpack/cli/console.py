"""``snowpack``: the commands of ``airflow snowpack`` without Airflow's command line, and ``snowpack assess`` without Airflow.

snowpack jobs list                                             # as `airflow snowpack jobs list`, on Airflow 3.1 too
snowpack assess --catalog https://catalog.example.com/api      # needs neither Airflow nor a store nor Spark
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_snowpack.cli import arguments as a
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.redaction import remember_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_snowpack.iceberg import CatalogConfig

CATALOG = a.arg(
    "--catalog", metavar="URL",
    help="The address of a REST catalog; without it, the connection AIRFLOW_CONN_<ID> that "
    "AIRFLOW__SNOWPACK__CATALOG_CONN_ID names",
)  # fmt: skip
WAREHOUSE = a.arg("--warehouse", metavar="NAME", help="The warehouse of the REST catalog, if it has several")
TOKEN_FILE = a.arg("--token-file", metavar="FILE", help="The file with the bearer token of the REST catalog")
PROPERTY = a.arg(
    "-p", "--property", action="append", default=[], metavar="KEY=VALUE",
    help="A property of PyIceberg, such as s3.endpoint=http://minio:9000; may be repeated",
)  # fmt: skip
ASSESS = (
    *(a.ASSESSED_TABLES, CATALOG, WAREHOUSE, TOKEN_FILE, PROPERTY, a.DATABASE, a.SEARCH_TABLES, a.LIMIT, a.HTML, a.POLICIES),
    *(a.RESUME, a.CONCURRENCY, a.OLD_SNAPSHOTS, a.OUTPUT),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exit with one of the codes in ``docs/cli.md``.

    :param arguments: ``None`` for those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = ArgumentParser("snowpack", description="Maintain Apache Iceberg tables.", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    alone = commands.add_parser("assess", help="Rank the tables of a catalog that need maintenance; reads only metadata")
    _complete(alone, ASSESS, assess)
    if given[:1] != ["assess"] and not _add_airflows(commands) and given and not given[0].startswith("-"):
        parser.error(f"{given[0]!r} needs Airflow, which is not installed here. Without it, there is only `snowpack assess`.")
    args = parser.parse_args(given)
    args.func(args)


@ends_cleanly
def assess(args: Namespace) -> ExitCode | None:
    from airflow_snowpack.cli.commands.assess import assess_catalog
    from airflow_snowpack.maintenance.policies import Policies

    policies = Policies.load(Path(args.policies)) if args.policies else Policies()
    return assess_catalog(args, _catalog(args), policies)


def _catalog(args: Namespace) -> CatalogConfig:
    """Return the catalog of the arguments, or of the environment, whose names are those of a worker without Airflow."""
    from airflow_snowpack.connections.catalog import PURPOSE, catalog_config
    from airflow_snowpack.iceberg import CatalogConfig
    from airflow_snowpack.settings import Settings
    from airflow_snowpack.worker.environment import Environment

    environment = Environment(os.environ)
    settings = Settings.load(environment)
    if args.catalog:
        token, properties = _read_token(args.token_file), dict(_pair(each) for each in args.property)
        remember_secrets({**properties, "token": token})
        return CatalogConfig.rest(
            settings.catalog_name,
            args.catalog,
            warehouse=args.warehouse,
            token=token,
            properties=properties,
        )
    if settings.catalog_conn_id is None:
        raise UsageProblem("No catalog is named. Pass --catalog with the address of a REST catalog.")
    return catalog_config(environment.connection(settings.catalog_conn_id, PURPOSE), settings.catalog_name)


def _read_token(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageProblem(f"The token file {file} cannot be read: {problem}.") from problem
    if len(token.split()) != 1:  # a request would be refused with an error that shows it
        raise UsageProblem(f"The token file {file} has {len(token.split())} words. It must have the token alone.")
    return token


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageProblem(f"--property {text!r} is not KEY=VALUE.")
    return key, value


def _add_airflows(commands: Any) -> bool:
    """Add the commands of ``airflow snowpack``; return whether Airflow is installed."""
    try:
        from airflow_snowpack.cli.main import get_cli_commands
    except ModuleNotFoundError as missing:
        if missing.name != "airflow":
            raise
        return False
    (group,) = get_cli_commands()
    _add(commands, getattr(group, "subcommands"))  # noqa: B009 - a group, which the type of the list does not show
    return True


def _add(commands: Any, declared: Iterable[Any]) -> None:
    for each in declared:
        parser = commands.add_parser(
            each.name,
            help=each.help,
            description=each.description or each.help,
            epilog=(getattr(each, "epilog", None) or "").replace("airflow snowpack", "snowpack"),
            formatter_class=RawDescriptionHelpFormatter,
        )
        if hasattr(each, "subcommands"):
            _add(parser.add_subparsers(required=True, metavar="COMMAND"), each.subcommands)
        else:
            _complete(parser, each.args, each.func)


def _complete(parser: ArgumentParser, args: Iterable[Any], function: Any) -> None:
    for each in args:
        each.add_to_parser(parser)
    parser.set_defaults(func=function)
