"""What is declared for every ``airflow`` call: light, complete, and true to the rooms behind it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import pytest
from bounded import output_of

from airflow_snowpack.interim.model import TableState
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.maintenance import action_names
from airflow_snowpack.maintenance.removals.model import RemovalState
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.provider_info import CONFIG
from airflow_snowpack.runners.images import ImageState
from airflow_snowpack.scheduling.pending_runs.model import WAITING


def leaves(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every command with its parser."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield path, parser
    for group in groups:
        for name, below in group.choices.items():
            yield from leaves(below, (*path, name))


def parsers() -> dict[str, argparse.ArgumentParser]:
    from airflow.cli.cli_parser import get_parser

    (top,) = (action for action in get_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {" ".join(path): parser for path, parser in leaves(top.choices["snowpack"])}


def test_every_command_is_there() -> None:
    assert set(parsers()) == {
        "jobs submit", "jobs list", "jobs show", "jobs watch", "jobs cancel", "jobs delete", "jobs rerun",
        "policies explain", "policies lint", "policies replay", "policies schema",
        "tables list", "tables show", "tables metadata", "tables plan", "tables refresh",
        "tables forget-catalog", "tables assess",
        "locks list", "locks release",
        "schedules list", "schedules show", "schedules explain", "schedules history", "schedules create", "schedules update",
        "schedules delete", "schedules suspend", "schedules resume", "schedules run", "schedules sync", "schedules check",
        "runs register", "runs upsert", "runs enable", "runs disable", "runs unregister", "runs list", "runs show", "runs run",
        "events list", "events send", "pending list", "scheduler",
        "builds list", "builds show", "builds verify", "builds publish", "builds rollback", "builds cleanup",
        "interim list", "interim show", "interim collect", "interim sweep", "interim adopt", "interim drop",
        "images list", "images show", "images build", "images forget",
        "fleet list", "fleet show", "fleet run",
        "removals list", "removals show", "removals approve", "removals reject", "removals run", "removals restore",
        "drain on", "drain off", "drain status", "db upgrade", "db check",
        "db prune", "digest", "queue", "workers", "sweep", "audit", "lineage", "worker", "api",
        "doctor",
    }  # fmt: skip


def test_every_command_has_an_example_that_its_own_parser_takes() -> None:
    for name, parser in parsers().items():
        assert parser.epilog is not None
        _, _, example = parser.epilog.partition("airflow snowpack ")
        assert example.startswith(name)
        import shlex

        parser.parse_args(shlex.split(example.removeprefix(name)))


def test_no_help_text_loses_a_word_to_rich_markup(capsys: pytest.CaptureFixture[str]) -> None:
    for parser in parsers().values():
        for action in parser._actions:
            assert "[" not in str(action.help), "a word in brackets would vanish"
        parser.print_help()
    assert "%(" not in capsys.readouterr().out


def test_what_completes_is_what_the_rooms_know() -> None:
    from airflow_snowpack.cli import arguments

    assert tuple(arguments.ACTION.kwargs["choices"]) == (*action_names(), "auto")
    assert {type(word) for word in arguments.ACTION.kwargs["choices"]} == {str}, "argparse shows wrong choices with their repr()"
    assert tuple(status.value for status in JobStatus) == arguments.STATUSES
    assert tuple(state.value for state in WAITING) == arguments.PENDING_STATES
    assert tuple(state.value for state in TableState) == arguments.INTERIM_STATES
    assert tuple(state.value for state in ImageState) == arguments.IMAGE_STATES
    assert tuple(state.value for state in RemovalState) == arguments.REMOVAL_STATES
    assert tuple(Preservation) == arguments.PRESERVATIONS


def test_the_help_of_the_api_has_the_settings_defaults() -> None:
    from airflow_snowpack.cli import arguments

    options = CONFIG["snowpack"]["options"]

    assert f"({options['api_host']['default']})" in arguments.HOST.kwargs["help"]
    assert f"({options['api_port']['default']})" in arguments.PORT.kwargs["help"]


def test_no_command_takes_the_token_as_an_argument() -> None:
    assert [action.option_strings for action in parsers()["api"]._actions if "token" in action.dest] == [["--token-file"]]


LIGHT = """
import sys
from airflow.cli import cli_config
before = set(sys.modules)
from airflow_snowpack.cli.main import get_cli_commands
get_cli_commands()
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("airflow_snowpack")))
print(*sorted(name for name in set(sys.modules) - before if name.startswith("airflow_snowpack.")))
"""


def test_declaring_the_commands_loads_none_of_them() -> None:
    from airflow_snowpack.cli.main import get_cli_commands

    imported = output_of(sys.executable, "-c", LIGHT).splitlines()

    assert imported[-2] == ""
    assert imported[-1].split() == ["airflow_snowpack.cli", "airflow_snowpack.cli.arguments", "airflow_snowpack.cli.main"]
    assert len(get_cli_commands()) == 1
