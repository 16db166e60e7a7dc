"""The Python in README and in getting started is DAGs that Airflow takes as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_the_first_dag_of_a_newcomer_parses(page: str, tmp_path: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    blocks = PYTHON_BLOCK.findall((REPOSITORY / page).read_text())
    assert blocks
    for place, block in enumerate(blocks):
        (tmp_path / f"example_{place}.py").write_text(block)
    bag = DagBag(tmp_path, bundle_path=tmp_path)
    assert bag.import_errors == {}
    assert set(bag.dags) == {"maintain_flights"}


def test_every_page_that_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (REPOSITORY / "README.md").read_text())
    assert links
    assert [link for link in links if "://" not in link and not (REPOSITORY / link).exists()] == []


def test_every_target_that_the_pages_name_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"(?:`|^ {4})make ([a-z]+)", page.read_text(), re.MULTILINE)}
    assert {"demo", "test"} <= named
    assert named <= targets
