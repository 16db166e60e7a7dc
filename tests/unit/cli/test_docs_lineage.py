"""docs/lineage.md tells the truth: its example runs."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "lineage.md").read_text()


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "lineage.md", "exec"), {"store_url": f"sqlite:///{tmp_path / 'snowpack.db'}"})
