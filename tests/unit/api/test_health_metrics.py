"""The gauges of stored health and of the last pass: a bounded number, whatever the number of tables."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import sqlalchemy as sa
from health_pages_world import keep
from made_health import made_health, sick_health
from pages_world import World
from prometheus_client.parser import text_string_to_metric_families

from airflow_snowpack.api.metrics import Metrics
from airflow_snowpack.maintenance.fleet.budget import Budget

TABLES = ("analytics.page_views", "analytics.sessions", "payments.refunds", "payments.transactions")


def scraped(world: World) -> dict[str, float]:
    text = Metrics().text(world.services).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    named = {" ".join([sample.name, *sample.labels.values()]): sample.value for sample in samples}
    return {
        name: value for name, value in named.items() if name.startswith(("snowpack_tables ", "snowpack_table_", "snowpack_pass"))
    }


def test_tables_are_counted_by_their_condition_with_the_age_of_the_oldest_health(world: World) -> None:
    nothing = {f"snowpack_tables {condition}": 0.0 for condition in ("unreadable", "sick", "fair", "healthy", "not_read")}
    assert scraped(world) == {**nothing, "snowpack_tables not_read": 4, "snowpack_table_locks": 0}
    keep(world, TABLES[0], made_health())
    world.clock.move(hours=2)
    keep(world, TABLES[1], sick_health(partitions=2, small=4_000))
    keep(world, "analytics.dropped", sick_health())
    world.installation.health_records.unreadable(world.table(TABLES[3]), "", "A manifest is missing.")
    found = scraped(world)
    assert [found[f"snowpack_tables {each}"] for each in ("healthy", "fair", "sick", "unreadable", "not_read")] == [1, 1, 0, 1, 1]
    assert found["snowpack_table_health_oldest_seconds"] == 7_200


def test_the_last_pass_is_counted_by_the_outcome_of_its_tables(world: World) -> None:
    passes = world.installation.fleet_passes
    for healthy in (7, 3):
        planning = passes.begin(f"nightly-{healthy}/run/plan", "lake", "", Budget(), workers=1, holder="pod-1")
        passes.plan(planning, [], [], {"listed": 9, "healthy": healthy})
        world.clock.move(minutes=1)
    found = scraped(world)
    assert (found["snowpack_pass_tables listed"], found["snowpack_pass_tables healthy"]) == (9, 3)
    assert found["snowpack_pass_age_seconds"] == 60


def test_a_scrape_takes_one_statement_for_health_and_one_for_the_last_pass(world: World) -> None:
    for dotted in TABLES:
        keep(world, dotted, made_health())
    seen: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement)

    sa.event.listen(world.store.engine, "before_cursor_execute", note)
    scraped(world)
    sa.event.remove(world.store.engine, "before_cursor_execute", note)
    assert len([each for each in seen if "table_health." in each]) == 1
    assert len([each for each in seen if each.startswith("SELECT fleet_passes.")]) == 1


def test_prometheus_accepts_a_scrape(world: World) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: the package prometheus)")
    text = Metrics().text(world.services)
    done = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
