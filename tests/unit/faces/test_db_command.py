"""``airflow snowpack db check`` on the embedded store."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS = Namespace(store_conn_id=None)


@pytest.fixture
def store_file(installation: Path) -> Path:
    """Where the store will be made."""
    file = installation / "snowpack.db"
    file.unlink()
    return file


def test_a_store_that_was_never_used_is_no_error_and_is_not_made_by_looking(
    store_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow_snowpack.cli import db

    db.check(ARGUMENTS)

    assert "is made with its tables when it is first used" in capsys.readouterr().out
    assert not store_file.exists()


def test_after_an_upgrade_the_check_is_content(store_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from airflow_snowpack.cli import db

    db.upgrade(ARGUMENTS)
    db.check(ARGUMENTS)

    assert capsys.readouterr().out.count("is up to date.") == 2
    assert store_file.exists()
