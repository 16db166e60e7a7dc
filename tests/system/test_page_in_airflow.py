"""Our pages in Airflow's own UI, as a person sees them, and the way from a task instance to its job."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from bounded import PATIENCE_S

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from tests.system.conftest import Run, RunningAirflow

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def page(airflow: RunningAirflow) -> Iterator[Page]:
    """A browser that nobody has logged in with."""
    if CHROMIUM is None:
        pytest.skip("There is no Chromium on this machine, so nobody looks at our pages within Airflow's. Install `chromium`.")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(base_url=f"http://127.0.0.1:{airflow.home.port}", viewport={"width": 1400, "height": 900})
        page.set_default_timeout(PATIENCE_S * 1000)
        yield page
        browser.close()


def log_in(page: Page, name: str) -> None:
    page.get_by_label("username").fill(name)
    page.locator("input[type=password]").fill(name)
    page.get_by_role("button", name="Sign in").click()


def test_a_person_logs_in_and_finds_the_pages_in_the_navigation_and_at_a_dag(page: Page) -> None:
    page.goto("/snowpack/ui/jobs?status=running")
    log_in(page, "vic")
    page.wait_for_url("**/snowpack/ui/jobs?status=running")
    assert "vic" in page.locator("header .user").inner_text()

    page.goto("/")
    page.get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name="Snowpack").click()
    ours = page.frame_locator("iframe[title=Snowpack]")
    ours.locator("header .brand").wait_for()
    assert "read only" in ours.locator("header .user").inner_text()
    ours.get_by_role("link", name="Operations", exact=True).click()
    page.wait_for_url("**/plugin/snowpack/snowpack/ui/queue**")  # Airflow takes the frame's address over into its own

    page.goto("/dags/system_submit")
    page.get_by_role("link", name="Snowpack").click()
    page.frame_locator("iframe[title=Snowpack]").locator("header .brand").wait_for()
    assert any("/snowpack/ui/jobs?dag_id=system_submit" in frame.url for frame in page.frames)


def links(airflow: RunningAirflow, run: Run, task_id: str, map_index: int = -1) -> Any:
    found = airflow.call("GET", f"{run.path}/taskInstances/{task_id}/links?map_index={map_index}")
    return found["extra_links"]


def test_a_task_that_waits_one_that_was_killed_and_one_that_is_done_lead_to_their_job(
    airflow: RunningAirflow, jobs: Jobs, new_table: Callable[..., TableName]
) -> None:
    table = new_table([pa.table({"id": pa.array([1])})])
    run = airflow.trigger("system_submit", {"table": table.dotted})
    airflow.task_becomes(run, "done", "deferred")
    job_id = airflow.result(run, "submit")["job_id"]
    to_the_job = {"Snowpack job": f"/snowpack/ui/jobs/{job_id}"}

    assert links(airflow, run, "submit") == to_the_job
    assert links(airflow, run, "done") == to_the_job
    airflow.set_task_state(run, "done", "failed")
    assert links(airflow, run, "done") == to_the_job
    jobs.cancel(job_id, by="the test")


def test_each_instance_of_a_mapped_task_leads_to_its_own_job(
    airflow: RunningAirflow, new_table: Callable[..., TableName]
) -> None:
    table = new_table([pa.table({"id": pa.array([1])})])
    run = airflow.trigger("system_mapped", {"table": table.dotted})

    assert airflow.ended(run) == "success"
    found = [links(airflow, run, "plan", index)["Snowpack job"] for index in (0, 1)]
    assert len(set(found)) == 2
    assert all(link.startswith("/snowpack/ui/jobs/") for link in found)


CATALOG, STORE = {"conn_type": "snowpack_catalog"}, {"conn_type": "snowpack_store"}
SECRET = {"login": "id", "password": "hunter22"}


@pytest.mark.parametrize(
    ("given", "ok", "says"),
    [
        (CATALOG | {"host": "sqlite:///{home}/catalog.db", "extra": '{{"warehouse": "file://{home}"}}'}, True, "answers"),
        (CATALOG | SECRET | {"host": "http://127.0.0.1:1"}, False, "cannot be reached"),
        (CATALOG | SECRET | {"host": "nowhere"}, False, "https://host/path"),
        (STORE | SECRET | {"host": "127.0.0.1", "port": 1}, False, "cannot be reached"),
    ],
    ids=["a catalog", "a catalog that is away", "an address that is none", "a store that is away"],
)
def test_the_button_that_tests_a_connection_says_what_is_wrong_and_no_secret(
    airflow: RunningAirflow, given: dict[str, Any], ok: bool, says: str
) -> None:
    filled = {key: value.format(home=airflow.home.home) if isinstance(value, str) else value for key, value in given.items()}
    answer = airflow.call("POST", "/connections/test", {"connection_id": "tried", **filled})

    assert (answer["status"], says in answer["message"], "hunter22" in answer["message"]) == (ok, True, False), answer
