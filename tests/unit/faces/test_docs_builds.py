"""docs/builds.md: a build that was declared without a URL is read by its name, as the page shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_snowpack import operators
from tests.unit.faces.conftest import Runner

PAGE = (Path(__file__).parents[3] / "docs" / "builds.md").read_text()


def rows() -> list[dict[str, Any]]:
    return [{"user_id": 4711, "clicks": 3}, {"user_id": 4712, "clicks": 5}]


@pytest.mark.parametrize("builds_url", ["", "elsewhere"])
def test_a_build_without_a_url_is_read_by_its_name(
    run_operator: Runner, installation: Path, builds_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__BUILDS_URL", builds_url and str(installation / builds_url))
    night = datetime(2026, 1, 2, tzinfo=UTC)
    build = operators.ShardedBuildOperator(
        task_id="build",
        dataset="features_by_user",
        python_callable=rows,
        engine="python",
        key="user_id",
        num_shards=1,
        as_of=night,
    )
    assert run_operator(build).state == "success"
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "BuildStorageHook" in block]
    exec(compile(example, "<builds.md>", "exec"), {})

    assert capsys.readouterr().out.splitlines()[-1] == "{'user_id': 4711, 'clicks': 3}"
