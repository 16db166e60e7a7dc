"""An entry that cannot run is refused where it is declared, and its environment never leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_snowpack.runners import Invocation, ModuleEntry, ShellEntry
from airflow_snowpack.runners.entry import Entry
from airflow_snowpack.runners.errors import InvalidEntry, ending
from airflow_snowpack.runners.exchange import added_environment, in_command

OWN = {"SNOWPACK_LOG_LEVEL": "DEBUG", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://secret", "PATH": "/bin"}
MODULE, SHELL = ModuleEntry("acme.scoring:score"), ShellEntry(("score",))


@pytest.mark.parametrize("function", ["acme.scoring:score", "acme:Model.score", "score:score"])
def test_a_function_is_named_with_its_module(function: str) -> None:
    assert ModuleEntry(function).path == function


@pytest.mark.parametrize(
    "function",
    ["", "score", "acme.scoring", "acme.scoring:", ":score", "acme..a:b", "acme:b()", "acme:b; import os", "a-b:c", "../a:b"],
)
def test_a_function_in_another_form_is_refused(function: str) -> None:
    with pytest.raises(InvalidEntry, match=r"package\.module:function"):
        ModuleEntry(function)


def test_the_function_of_a_source_is_a_name_in_it() -> None:
    assert ModuleEntry("score", source="def score(): ...").path == "snowpack_task_function:score"
    with pytest.raises(InvalidEntry, match="the name of a function in the source"):
        ModuleEntry("acme:score", source="def score(): ...")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ((), "write the program and each argument"),
        ("score --all", "write the program and each argument"),
        (("",), "its program is empty"),
        (("score", "a\0b"), "without NUL"),
        (("score", 7), "without NUL"),
    ],
)
def test_a_command_that_no_system_can_run_is_refused(command: Any, problem: str) -> None:
    with pytest.raises(InvalidEntry, match=problem):
        ShellEntry(command)


@pytest.mark.parametrize("outputs", [("a/b",), ("..",), ("a", "a"), ("",), ("a b",), "scored", (7,)])
def test_an_output_is_named_once_and_without_a_path(outputs: Any) -> None:
    with pytest.raises(InvalidEntry):
        ShellEntry(("score",), outputs=outputs)


def test_only_the_two_placeholders_are_replaced_and_nothing_in_the_paths() -> None:
    command = ("{inputs}/a", "--to={outputs}", "{inputs}{inputs}", "{x} {} {{inputs}} $inputs %s {INPUTS}")
    assert in_command(command, inputs="/{outputs}", outputs=r"\1") == (
        "/{outputs}/a",
        r"--to=\1",
        "/{outputs}/{outputs}",
        "{x} {} {/{outputs}} $inputs %s {INPUTS}",
    )


@pytest.mark.parametrize(
    ("entry", "isolated", "added"),
    [
        (MODULE, False, {"TOKEN": "t"}),
        (SHELL, False, {"TOKEN": "t"}),
        (MODULE, True, {"SNOWPACK_LOG_LEVEL": "DEBUG", "TOKEN": "t"}),
        (SHELL, True, {"TOKEN": "t"}),
    ],
)
def test_each_entry_receives_the_environment_of_the_table(entry: Entry, isolated: bool, added: dict[str, str]) -> None:
    assert added_environment(entry, isolated=isolated, command_env={"TOKEN": "t"}, own=OWN) == added


def test_command_env_replaces_a_knob() -> None:
    env = {"SNOWPACK_LOG_LEVEL": "ERROR"}
    assert added_environment(MODULE, isolated=True, command_env=env, own=OWN) == env


@pytest.mark.parametrize("env", [{"": "secret"}, {"A=B": "secret"}, {"A\0": "secret"}, {"A": "secret\0"}, {"A": ["secret"]}])
def test_an_unusable_variable_is_refused_without_its_value(env: Any) -> None:
    with pytest.raises(InvalidEntry) as refused:
        added_environment(SHELL, isolated=True, command_env=env, own={})
    assert "secret" not in str(refused.value)


def test_an_invocation_does_not_print_its_environment() -> None:
    assert "secret" not in repr(Invocation(("score",), {"TOKEN": "secret"}, Path("/tmp"), "/snowpack"))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "with exit code 0"),
        (3, "with exit code 3"),
        (-9, "by the signal SIGKILL"),
        (-35, "by the signal 35"),
        (137, "with exit code 137 (SIGKILL)"),
        (255, "with exit code 255"),
    ],
)
def test_an_end_is_described_in_words(code: int, words: str) -> None:
    assert ending(code) == words
