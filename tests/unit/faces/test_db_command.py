"""``airflow snowpack db check`` on the embedded store."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from airflow_snowpack.cli import db

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ARGUMENTS = Namespace(store_conn_id=None)


def test_a_store_that_was_never_used_is_no_error_and_is_not_made_by_looking(
    installation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db.check(ARGUMENTS)

    assert "is made with its tables when it is first used" in capsys.readouterr().out
    assert not (installation / "snowpack.db").exists()


def test_after_an_upgrade_the_check_is_content(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db.upgrade(ARGUMENTS)
    db.check(ARGUMENTS)

    assert capsys.readouterr().out.count("is up to date.") == 2
    assert (installation / "snowpack.db").exists()
