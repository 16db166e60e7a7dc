"""``tables assess``: which tables are sick, from metadata alone, and docs/assess.md tells the truth about it."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command_line import Run
from pseudo_terminal import PseudoTerminal
from table_zoo import Zoo, append, commit_times

from airflow_snowpack import hooks

PAGE = (Path(__file__).parents[3] / "docs" / "assess.md").read_text()
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
LOW_THRESHOLD = """
rules:
  - tables: "**"
    actions:
      rewrite_data_files: {thresholds: {small_files: 5}}
      expire_snapshots: {thresholds: {old_snapshots: 1}}
"""


@pytest.fixture
def zoo(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Zoo:
    """Tables of the installation's catalog; the current folder has a policy by which six small files are too many."""
    monkeypatch.chdir(installation)
    (installation / "policies.yaml").write_text(LOW_THRESHOLD)
    return Zoo(hooks.IcebergCatalogHook().catalog)


@pytest.fixture
def tables(zoo: Zoo) -> Zoo:
    """One sick table, two healthy ones, and one that cannot be read."""
    for kind in ("unpartitioned", "healthy", "never_written", "missing_manifest"):
        zoo.new(kind, kind)
    return zoo


ASSESS = ("tables", "assess", "--policies", "policies.yaml")


def by_name(said_json: dict[str, list[dict[str, object]]]) -> dict[str, dict[str, object]]:
    return {str(each["table"]): each for each in said_json["tables"]}


def test_every_table_is_listed_with_its_estimates_or_the_reason_why_it_cannot_be_read(
    snowpack: Run, tables: Zoo, installation: Path
) -> None:
    said = snowpack(*ASSESS)

    assert said.code == 0
    assert re.search(r"zoo\.unpartitioned +\| \d+", said.out)
    assert "6 of 6 data files below 384.0 MiB" in said.out
    assert "5 of 6 files" in said.out
    assert "zoo.healthy" not in said.out
    assert re.search(r"zoo\.missing_manifest +\| The metadata of table", said.out)
    assert "1 of 4 tables needs maintenance, and 1 cannot be read" in said.err

    found = by_name(snowpack(*ASSESS, "-o", "json").json)

    assert [each["state"] for each in found.values()] == ["needs_maintenance", "unreadable", "healthy", "healthy"]
    sick = found["zoo.unpartitioned"]
    assert (sick["files"], sick["files_saved"], sick["manifests"], sick["manifests_saved"]) == (6, 5, 6, 0)
    assert sick["planning_saved"] == pytest.approx(5 / 12)
    [need] = sick["needs"]  # type: ignore[misc]  # no metadata shows whether there are orphan files
    assert need["estimate"]["bytes_rewritten"] == sick["bytes_rewritten"] > 0  # type: ignore[operator]
    assert sum(part["points"] for part in sick["score_parts"]) == sick["score"]  # type: ignore[attr-defined]
    assert found["zoo.missing_manifest"]["score"] is None

    found = snowpack(*ASSESS, "zoo.healthy", "zoo.healthy", "-o", "json").json["tables"]

    assert [row["state"] for row in found] == ["healthy"]

    assert snowpack(*ASSESS, "--html", "report.html").code == 0

    page = (installation / "report.html").read_text()
    read = References()
    read.feed(page)
    assert (read.loaded, read.open) == ([], [])
    assert "url(" not in page
    assert "@import" not in page
    assert "zoo.unpartitioned" in page
    assert "zoo.missing_manifest" in page
    assert page.count("<svg") >= 3
    assert not (installation / "report.html.resume").exists()


def test_nothing_is_written_and_no_store_is_needed(
    snowpack: Run, tables: Zoo, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = installation / "no store" / "snowpack.db"
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps({"conn_type": "sqlite", "host": str(absent)}))
    before = everything_in(installation)

    assert snowpack(*ASSESS).code == 0

    assert everything_in(installation) == before
    assert not absent.parent.exists()


def everything_in(folder: Path) -> dict[str, object]:
    files = {str(path): path.stat().st_mtime_ns for path in sorted((folder / "lake" / "warehouse").rglob("*"))}
    with closing(sqlite3.connect(folder / "lake" / "catalog.db")) as catalog:
        rows = catalog.execute("SELECT * FROM iceberg_tables ORDER BY table_name").fetchall()
    return {**files, "catalog": rows, "here": sorted(path.name for path in folder.iterdir())}


def test_what_blocks_maintenance_is_named_and_what_an_excluded_table_would_save_is_counted_all_the_same(
    snowpack: Run, zoo: Zoo
) -> None:
    for kind, blocked in [
        ("skipped", "Excluded from maintenance: "),
        ("shared_location", "remove_orphan_files is refused: zoo.shared_location_around lies around it"),
    ]:
        zoo.new(kind, kind)

        row = by_name(snowpack(*ASSESS, "-o", "json").json)[f"zoo.{kind}"]

        assert any(str(each).startswith(blocked) for each in row["blockers"])  # type: ignore[attr-defined]

    append(zoo.create("garbage", **{"commit.manifest.target-size-bytes": "8 MB"}), ["a"])

    row = by_name(snowpack(*ASSESS, "-o", "json").json)["zoo.garbage"]

    (blocker,) = row["blockers"]  # type: ignore[misc]
    assert blocker.startswith("The table property commit.manifest.target-size-bytes = '8 MB' cannot be used: it must be a whole")
    assert "rewrite_manifests" in blocker

    assert by_name(snowpack(*ASSESS, "-o", "json").json)["zoo.skipped"]["files_saved"] == 5


def test_only_tables_that_cannot_be_read_are_a_failure(snowpack: Run, zoo: Zoo, installation: Path) -> None:
    said = snowpack(*ASSESS, "zoo.nowhere", "--html", "report.html")

    assert said.code == 1
    assert said.out.startswith("No table could be read.")
    assert "0 of 1 table needs maintenance, and 1 cannot be read." in said.err.splitlines()
    page = (installation / "report.html").read_text()
    assert ("No table could be read." in page, "No table needs maintenance." in page) == (True, False)


ONLY_MANIFESTS = """
rules:
  - tables: "**"
    actions:
      rewrite_data_files: {enabled: false}
      rewrite_manifests: {thresholds: {small_manifests: 2}}
"""


def test_files_that_are_compacted_first_do_not_count_twice_among_manifests_but_manifests_alone_save_planning(
    snowpack: Run, zoo: Zoo, installation: Path
) -> None:
    zoo.new("unpartitioned", "unpartitioned")
    both = LOW_THRESHOLD + "      rewrite_manifests: {thresholds: {small_manifests: 2}}\n"
    (installation / "policies.yaml").write_text(both)

    row = by_name(snowpack(*ASSESS, "-o", "json").json)["zoo.unpartitioned"]

    assert (row["files_saved"], row["manifests_saved"]) == (5, 0)
    assert row["planning_saved"] == pytest.approx(5 / 12)

    (installation / "policies.yaml").write_text(ONLY_MANIFESTS)

    listed, row = snowpack(*ASSESS, "--html", "report.html"), by_name(snowpack(*ASSESS, "-o", "json").json)["zoo.unpartitioned"]

    assert (row["files_saved"], row["manifests_saved"], row["planning_saved"]) == (0, 5, pytest.approx(5 / 12))
    assert "5 of 6 manifests" in listed.out
    assert "Maintenance would save 5 of 6 manifests and rewrite no data file." in listed.err
    page = (installation / "report.html").read_text()
    assert "<div>5 of 6 manifests</div>" in page
    assert "42 % of planning" in page


def test_the_bytes_that_old_snapshots_hold_are_counted_anew_when_others_would_expire(
    snowpack: Run, zoo: Zoo, installation: Path
) -> None:
    table = zoo.create("replaced")
    for value in ("a", "b", "c"):
        append(table, [value])
        table.delete(f"value == '{value}'")
    commit_times(zoo, zoo.named("replaced"), [LONG_AGO] * len(zoo.load(zoo.named("replaced")).metadata.snapshots))
    for option, freed in [("--old-snapshots", True), ("--no-old-snapshots", False)]:
        said = snowpack(*ASSESS, option, "-o", "json")
        row = by_name(said.json)["zoo.replaced"]

        assert bool(re.search(r"free [\d.]+ \w*B", said.err)) is freed
        assert ("What expiring snapshots would free was not read." in said.err) is not freed
        assert "expire_snapshots" in {need["action"] for need in row["needs"]}  # type: ignore[attr-defined]
        assert (row["bytes_freed"] > 0) is freed  # type: ignore[operator]

    assess = (*ASSESS, "--resume", "kept.resume", "-o", "json")
    kept_three = by_name(snowpack(*assess).json)["zoo.replaced"]["bytes_freed"]
    keep_one = LOW_THRESHOLD.replace("old_snapshots: 1}", "old_snapshots: 1}, options: {retain_last: 1}")
    (installation / "policies.yaml").write_text(keep_one)

    kept_one = by_name(snowpack(*assess).json)["zoo.replaced"]["bytes_freed"]

    assert kept_one > kept_three > 0  # type: ignore[operator]


def test_an_unchanged_table_is_not_read_again(snowpack: Run, zoo: Zoo) -> None:
    name = zoo.new("unpartitioned", "unpartitioned")
    first = by_name(snowpack(*ASSESS, "--resume", "kept.resume", "-o", "json").json)
    snapshot = zoo.load(name).current_snapshot()
    assert snapshot is not None
    manifests = [manifest.manifest_path for manifest in snapshot.manifests(zoo.load(name).io)]
    for path in (*manifests, snapshot.manifest_list):
        Path(path.removeprefix("file://")).unlink()

    again = by_name(snowpack(*ASSESS, "--resume", "kept.resume", "-o", "json").json)

    assert again == first


def test_a_changed_table_is_read_again(snowpack: Run, zoo: Zoo) -> None:
    name = zoo.new("unpartitioned", "unpartitioned")
    snowpack(*ASSESS, "--resume", "kept.resume")
    append(zoo.load(name), ["one more"])

    assert by_name(snowpack(*ASSESS, "--resume", "kept.resume", "-o", "json").json)["zoo.unpartitioned"]["files"] == 7


def test_a_resume_file_that_was_cut_off_is_read_as_far_as_it_goes_and_one_that_is_none_is_refused_and_kept(
    snowpack: Run, tables: Zoo, installation: Path
) -> None:
    for cut in [1, 30]:
        first = by_name(snowpack(*ASSESS, "--resume", "kept.resume", "-o", "json").json)
        file = installation / "kept.resume"
        file.write_text(file.read_text()[:-cut])

        assert by_name(snowpack(*ASSESS, "--resume", "kept.resume", "-o", "json").json) == first
        lines = file.read_text().splitlines()
        assert len([line for line in lines if line.startswith("[") and line.endswith("]")]) >= 3

    (installation / "notes.txt").write_text("mine")

    said = snowpack(*ASSESS, "--resume", "notes.txt")

    assert said.code == 2
    assert "The resume file 'notes.txt' cannot be used" in said.err
    assert (installation / "notes.txt").read_text() == "mine"


class References(HTMLParser):
    """What a page would load, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "data", "action")]
        if tag not in ("meta", "link", "rect", "line", "path", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()


@pytest.mark.parametrize("place", [".", "folder", "absent/report.html"])
def test_a_report_that_cannot_be_written_is_a_usage_problem_and_leaves_no_file(
    snowpack: Run, tables: Zoo, installation: Path, place: str
) -> None:
    (installation / "folder").mkdir()
    before = {*installation.iterdir()}
    said = snowpack(*ASSESS, "zoo.unpartitioned", "--html", place, "--resume", "assessed.resume")

    assert (said.code, f"The report {place!r} cannot be written: " in said.err) == (2, True)
    assert {*installation.iterdir()} - before == {installation / "assessed.resume"}


def test_progress_is_shown_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from airflow_snowpack.cli.progress import ProgressLine

    with ProgressLine("tables", 2) as line:
        line.advance(1, "db.first")
    assert capsys.readouterr().err == ""

    monkeypatch.setenv("TERM", "xterm")
    screen = PseudoTerminal()
    monkeypatch.setattr("sys.stderr", screen.out)
    with ProgressLine("tables", 1) as line:
        line.advance(1, "db.first")
    assert "1 of 1 tables" in screen.shown()


def test_every_command_of_the_page_runs(snowpack: Run, tables: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(hooks.IcebergCatalogHook().settings.home)
    catalog = {
        "conn_type": "sqlite",
        "host": f"{home}/catalog.db",
        "extra": json.dumps({"warehouse": f"file://{home}/warehouse"}),
    }
    monkeypatch.setenv("AIRFLOW_CONN_SNOWPACK_CATALOG", json.dumps(catalog))
    Zoo(tables.catalog, namespace="demo").new("unpartitioned", "clicks")
    commands = re.findall(r"^airflow snowpack (.*?)(?: > \S+)?$", PAGE, re.MULTILINE)

    assert len(commands) == 9
    for command in commands:
        said = snowpack(*shlex.split(command))
        assert said.code == 0, f"{command}\n{said.err}"
