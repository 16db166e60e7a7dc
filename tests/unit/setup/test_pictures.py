"""The pictures of the documentation show the pages as they are: ``make images`` takes those again whose page has changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from picture_sources import IMAGES, PAGES, ROOT, SCHEMES, SUPPORT, digest, named, outdated, record


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources of the pictures, to be changed."""
    for folder in (PAGES, SUPPORT, Path("docs")):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_each_picture_of_the_documentation_is_that_of_its_page_as_it_is_now() -> None:
    assert outdated() == [], "These pages have changed. Take their pictures again: make images"


def test_each_picture_is_shown_in_light_and_dark() -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    pictures = {f"{name}-{scheme}.png" for name in named() for scheme in SCHEMES}
    assert {file.name for file in (ROOT / IMAGES).glob("*.png")} == pictures
    assert [picture for picture in pictures if f"images/{picture}#only-" not in text] == []


@pytest.mark.parametrize(
    ("changed", "pictures"),
    [
        (PAGES / "templates/table_metadata.html", {"table-metadata"}),
        (PAGES / "templates/job.html", {"job-completed", "job-running"}),
        (PAGES / "templates/plan.html", {"job-completed", "job-running", "table"}),
        (PAGES / "static/page.css", set(named())),
        (SUPPORT / "lineage_world.py", set(named())),
        (SUPPORT / "crew.py", set()),
        (IMAGES / "queue-dark.png", {"queue"}),
    ],
)
def test_a_changed_page_makes_its_pictures_outdated_until_they_are_taken_again(
    copy: Path, changed: Path, pictures: set[str]
) -> None:
    record(named(copy), copy)
    with (copy / changed).open("ab") as file:
        file.write(b"\n")
    assert set(outdated(copy)) == pictures
    record(pictures, copy)
    assert outdated(copy) == []


def test_a_picture_has_the_sources_of_all_templates_that_its_page_uses(copy: Path) -> None:
    before = digest("jobs", copy)
    parts = copy / PAGES / "templates/parts.html"
    parts.write_text(parts.read_text().replace("badge", "mark"))
    assert digest("jobs", copy) != before
