"""docs/cli.md tells the truth: its commands run in order and end as it says, and its tables are those of the code."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command_line import Run
from interim_world import handed_on, holder
from published_builds import publish_build
from scripted_engine import ScriptedEngine

from airflow_snowpack import hooks
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.worker import process

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs" / "cli.md").read_text()
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
NAMED = re.compile(r"airflow snowpack ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)")
LINE = re.compile(r"(?:(?P<name>\w+)=\$\()?airflow snowpack (?P<command>.*?)(?: \| jq -r \.job_id\))?(?: > \S+)?")
EXPECTED = re.compile(r"exit code (\d+)")


def commands() -> list[tuple[str, str, int]]:
    """The lines of the page's bash examples: the variable that takes a job's id, the command, and the exit code that it names."""
    found = []
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            said, _, comment = line.partition("  #")
            code = EXPECTED.search(comment or line.partition(" # ")[2])
            match = LINE.fullmatch(said.strip())
            assert match is not None, line
            found.append((match["name"] or "", match["command"], int(code[1]) if code else 0))
    return found


@pytest.fixture
def tables(flights: TableName, jobs: Jobs) -> None:
    """The tables of the page, one of them locked."""
    catalog = hooks.IcebergCatalogHook().catalog
    for name in ("clicks", "views", "orders"):
        catalog.create_table(f"demo.{name}", schema=catalog.load_table(flights.identifier).schema())
    jobs.locks.acquire(TableName("lake", "demo", "events"), "etl/2026-11-21", ttl=timedelta(hours=1))


@pytest.fixture
def builds(installation: Path, jobs: Jobs) -> None:
    """The dataset of the page, with two published runs."""
    registry, storage = BuildRegistry(jobs.store), Storage(installation / "flights_by_tail")
    for day in (24, 25):
        as_of = datetime(2026, 4, day, tzinfo=UTC)
        publish_build(registry, storage, "flights_by_tail", as_of=as_of, rows={"N14228": day})


@pytest.fixture
def interim(jobs: Jobs) -> None:
    """The interim table of the page, kept on purpose."""
    registry = InterimRegistry(jobs.store, make_id=lambda: "5d2a91bc04de4f6f8d3c7e1b9a0f2c46")
    handed_on(registry, holder("clean"), rows=1, preservation=Preservation.FULL)


@pytest.mark.usefixtures("tables", "builds", "interim")
def test_every_command_of_the_page_ends_as_it_says(
    snowpack: Run, jobs: Jobs, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.cli.commands import doctor

    monkeypatch.chdir(installation)  # some commands write reports
    monkeypatch.setattr(process, "engines", lambda _installation, _spark, **_options: ScriptedEngine)
    # A session of other tests in this process has another catalog; faces/test_doctor_on_spark.py runs this check.
    without_session = tuple(check for check in doctor.CHECKS if check is not doctor.spark_sees_catalog)
    monkeypatch.setattr(doctor, "CHECKS", without_session)
    ids: dict[str, str] = {}

    def with_ids(command: str) -> list[str]:
        return shlex.split(re.sub(r"\$(\w+)", lambda each: ids[each[1]], command))

    for name, command, code in commands():
        if command.startswith("jobs watch"):
            for _ in range(jobs.queue_depth()):  # the workers elsewhere that the page speaks of
                assert snowpack("worker", "--once").code == 0
        said = snowpack(*with_ids(command))
        assert said.code == code, f"{command}\n{said.err}"
        if name:
            ids[name] = said.json["job_id"]


def test_the_dry_run_of_the_page_is_the_one_of_the_table(snowpack: Run, flights: TableName) -> None:
    (shown,) = re.findall(r"```text\n(Dry run of.*?)```", PAGE, re.DOTALL)
    said = snowpack("jobs", "submit", "demo.flights", "--dry-run").out

    assert [line.rstrip() for line in said.splitlines()] == shown.splitlines()


def test_the_exit_codes_of_the_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)

    assert rows == [(str(code.value), code.meaning) for code in ExitCode]


def test_the_page_names_every_command_and_every_command_that_a_page_names_exists() -> None:
    from airflow_snowpack.cli.main import get_cli_commands

    (snowpack,) = get_cli_commands()
    groups = {group.name: {command.name for command in getattr(group, "subcommands", ())} for group in snowpack.subcommands}  # type: ignore[union-attr]  # it is a group
    for group, commands in groups.items():
        for name in commands or {""}:
            assert f"{group} {name}".strip() in PAGE

    named = {(page.name, *match[1].split()) for page in PAGES for match in NAMED.finditer(page.read_text())}
    assert len(named) > 30
    for page, group, *command in named:
        assert group in groups, page
        assert not (command and groups[group]) or command[0] in groups[group], page
