"""How commands end: exit codes, outages, pipes, names of users."""

from __future__ import annotations

import getpass
import os
from argparse import Namespace
from pathlib import Path

import pytest
from command_line import Run

from airflow_snowpack.builds.errors import PointerMoved
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.exit_code import ExitCode, code_of, common_code


@pytest.fixture
def no_store(installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's server is down: nobody listens there."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_TEST_STORE", '{"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "x", "login": "x"}'
    )


@pytest.mark.usefixtures("no_store")
def test_a_store_that_is_down_is_told_in_a_sentence_and_by_the_code(snowpack: Run) -> None:
    for command in [
        ("jobs", "list"),
        ("jobs", "cancel", "deadbeef", "--yes"),
        ("drain", "on"),
        ("worker", "--once"),
        ("db", "check"),
    ]:
        said = snowpack(*command)

        assert (said.code, said.out) == (6, "")
        assert "The Snowpack store at postgresql" in said.err
        assert "Traceback" not in said.err


def test_another_store_than_the_installations_may_be_named_if_its_connection_exists(
    snowpack: Run, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = snowpack("queue", "--store-conn-id", "nobody")

    assert said.code == 1
    assert "The Airflow connection 'nobody'" in said.err

    monkeypatch.setenv("AIRFLOW_CONN_OTHER", f'{{"conn_type": "sqlite", "host": "{installation / "other.db"}"}}')

    assert snowpack("drain", "on", "--store-conn-id", "other").code == 0
    assert snowpack("drain", "status", "-o", "json").json["on"] is False


def test_a_problem_has_its_code_and_mixed_ones_are_refused() -> None:
    assert code_of(PointerMoved("flights", "r1", 4, 7)) is ExitCode.REFUSED

    assert code_of(SnowpackError("whatever")) is ExitCode.REFUSED

    done, gone, later = ExitCode.DONE, ExitCode.NOT_FOUND, ExitCode.TRY_LATER

    assert common_code([done, done]) is done
    assert common_code([gone, done, gone]) is gone
    assert common_code([gone, later]) is ExitCode.REFUSED


def test_ctrl_c_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    from airflow_snowpack.cli.outcome import ends_cleanly

    @ends_cleanly
    def interrupted(args: Namespace) -> ExitCode | None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        interrupted(Namespace())
    assert (ended.value.code, capsys.readouterr().err) == (130, "Interrupted.\n")


def test_an_error_that_nobody_expected_keeps_its_traceback() -> None:
    from airflow_snowpack.cli.outcome import ends_cleanly

    @ends_cleanly
    def broken(args: Namespace) -> ExitCode | None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        broken(Namespace())


def test_a_user_without_a_name_is_recorded_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_snowpack.cli.context import os_user

    monkeypatch.setenv("LOGNAME", "vera")
    assert os_user() == "vera"

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 50000")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert os_user() == f"uid {os.getuid()}"
