"""The alert rules and the dashboard in ``docker/monitoring``, against the metrics of the API and with Prometheus's own tool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_snowpack.api.counter_metrics import COUNTERS, HISTOGRAMS

REPOSITORY = Path(__file__).parents[3]
MONITORING = REPOSITORY / "docker/monitoring"
ALERTS = MONITORING / "alerts.yaml"
RATE_INTERVAL = "$__rate_interval"


def panels() -> list[dict[str, Any]]:
    return list(json.loads((MONITORING / "dashboard.json").read_text())["panels"])


def expressions() -> Iterator[str]:
    yield from (target["expr"] for panel in panels() for target in panel["targets"])
    yield from (rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"])


def reported() -> set[str]:
    """The metrics that ``docs/api.md`` lists, and the series of histograms."""
    documented = set(re.findall(r"snowpack_\w+", (REPOSITORY / "docs/api.md").read_text()))
    return documented | {f"{name}_bucket" for name in documented}


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: the package prometheus)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_dashboard_and_the_alerts_use_metrics_that_exist() -> None:
    used = {name for expression in expressions() for name in re.findall(r"snowpack_\w+", expression)}
    assert used <= reported()


def test_every_counter_is_documented() -> None:
    names = {f"snowpack_{counter.name}_total" for counter in COUNTERS} | {f"snowpack_{each.name}" for each in HISTOGRAMS}
    assert names <= reported()


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels())
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_several_servers_that_report_the_same_store_are_counted_once() -> None:
    of_a_store = [each for each in expressions() if "snowpack_http_" not in each]
    assert all(re.search(r"max(\s+by \([^)]*\))?\s*\(|absent\(", each) for each in of_a_store)


def test_prometheus_accepts_each_expression(tmp_path: Path) -> None:
    rules = [{"record": f"r{place}", "expr": each.replace(RATE_INTERVAL, "5m")} for place, each in enumerate(expressions())]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(tmp_path / "all.yaml"))


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    cases = Path(__file__).with_name("alerts_test.yaml").read_text().replace("ALERTS", str(ALERTS))
    (tmp_path / "cases.yaml").write_text(cases)
    promtool("test", "rules", str(tmp_path / "cases.yaml"))
