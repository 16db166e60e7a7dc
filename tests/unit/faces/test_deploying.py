"""The scheduler's own deploying: it follows the files, and takes no folder without them for a decision to have no schedules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_snowpack import hooks
from airflow_snowpack.scheduling import Schedules
from airflow_snowpack.store import open_store

DECLARED = "schedules: [{name: nightly, dag_id: maintain, trigger: {every: 4h}}]\n"


@pytest.fixture
def deploy() -> Callable[..., Any]:
    """Import the function before the test: Airflow sets up its logging with the first import."""
    from airflow_snowpack.hooks.services import deploy

    return deploy


@pytest.mark.parametrize("files", ["no folder", "no files"])
def test_a_folder_that_is_not_there_yet_deletes_no_schedule(
    deploy: Callable[..., Any],
    files: str,
    sqlite_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from airflow_snowpack.hooks.services import deploy

    monkeypatch.setenv("AIRFLOW__SNOWPACK__SCHEDULE_FILES", "*.yaml")
    root = tmp_path / "dags"
    root.mkdir()
    (root / "schedules.yaml").write_text(DECLARED)
    with open_store(sqlite_url) as store:
        settings = hooks.SnowpackHook().settings
        report = deploy(store, settings, root)
        assert report is not None
        assert report.created == ("nightly",)

        (root / "schedules.yaml").unlink()
        assert deploy(store, settings, root if files == "no files" else tmp_path / "elsewhere") is None
        assert [one.name for one in Schedules(store, catalog="lake").list()] == ["nightly"]
        assert "schedules_not_deployed: no file below" in caplog.text
