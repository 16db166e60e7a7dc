"""The page on the API: each of its commands is run as it stands there, and what it lists is there."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from api_process import TOKEN
from bounded import PATIENCE_S
from interim_world import handed_on, holder
from made_images import make_images
from planned_removals import plan_removal, quarantine_removal
from published_builds import publish_build

from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.preservation import Preservation

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGE = Path("docs/api.md").read_text()
BLOCKS = [block for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) if not block.startswith("export")]


@pytest.fixture
def flights_by_tail(app: FastAPI, tmp_path: Path) -> None:
    """The dataset of the page, with two published runs."""
    registry, storage = BuildRegistry(app.state.services.get().jobs.store), Storage(tmp_path / "flights_by_tail")
    for day in (24, 25):
        as_of = datetime(2026, 4, day, tzinfo=UTC)
        publish_build(registry, storage, "flights_by_tail", as_of=as_of, rows={"N14228": day})


@pytest.fixture
def interim(app: FastAPI) -> None:
    """The interim table of the page, kept on purpose."""
    registry = InterimRegistry(app.state.services.get().jobs.store, make_id=lambda: "5d2a91bc04de4f6f8d3c7e1b9a0f2c46")
    handed_on(registry, holder("clean"), rows=1, preservation=Preservation.FULL)


@pytest.fixture
def images(app: FastAPI) -> None:
    """Images in every state."""
    make_images(app.state.services.get().jobs.store)


@pytest.fixture
def removal(app: FastAPI) -> None:
    """A removal that awaits approval, and two with files in quarantine."""
    store = app.state.services.get().jobs.store
    plan_removal(store, TableName("lake", "demo", "leftovers"))
    for table in ("trips", "copies"):  # the newest comes first, and is restored first
        quarantine_removal(store, TableName("lake", "demo", table))


@pytest.mark.one_database
@pytest.mark.usefixtures("flights_by_tail", "interim", "images", "removal")
def test_every_command_of_the_page_runs(api: httpx.Client) -> None:
    script = "set -eu -o pipefail\n" + "\n".join(BLOCKS).replace("curl -sS", "curl -sS --fail-with-body")
    environment = {"PATH": os.environ["PATH"], "SNOWPACK": str(api.base_url).rstrip("/"), "TOKEN": TOKEN}
    api.post("/tables/refresh")  # as the process does for itself when it starts
    ran = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout[-500:]
    assert script.count("api ") > 20
    assert "Would compact" in ran.stdout


@pytest.mark.one_database
def test_every_metric_is_on_the_page(api: httpx.Client) -> None:
    api.post("/tables/refresh")
    names = set(re.findall(r"^# TYPE (snowpack_\S+) (?:gauge|histogram|counter)$", api.get("/metrics").text, re.MULTILINE))
    told = PAGE.replace("`_age_seconds`", "snowpack_inventory_age_seconds").replace("`_failing`", "snowpack_inventory_failing")
    assert {name for name in names if not name.endswith("_created")} <= set(re.findall(r"snowpack_[a-z_]+", told))
