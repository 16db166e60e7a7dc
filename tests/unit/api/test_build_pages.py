"""The pages of datasets, runs and shards through the app itself, on a real store and a real folder."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from builds_world import FAILED, FIRST, SECOND, SELECTED, THIRD, WRITING, Built, make_builds
from built_runs import everything
from page_reading import Browser, row, words
from pages_world import World

from airflow_snowpack.api.pages.charts import MOST_BARS, skew_chart
from airflow_snowpack.builds import layout
from airflow_snowpack.builds.json_format import read_attempt
from airflow_snowpack.builds.manager import skew
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.store import Actor


@pytest.fixture
def made(world: World, tmp_path: Path) -> Built:
    return make_builds(world.store, tmp_path)


def test_the_list_tells_what_readers_of_each_dataset_see_and_a_dataset_has_its_runs_and_their_states(
    browser: Browser, made: Built
) -> None:
    page = browser.get("/ui/builds")
    assert SECOND in row(page, "flights")
    assert row(page, "empty").startswith("empty \u2013 \u2013")

    page = browser.get("/ui/builds/flights")
    for run_id, state in (
        (FIRST, "published"),
        (SECOND, "current"),
        (FAILED, "failed"),
        (SELECTED, "running"),
        (WRITING, "running"),
    ):
        assert f" {state} " in row(page, run_id)
    assert "1,300" in row(page, SECOND)
    assert "not cleaned" in row(page, THIRD)
    said = words(page)
    assert "publication 4" in said
    assert "rolled back" in said
    assert "by ada" in said

    for path, title in (
        ("/ui/builds/flights/runs/nothing", "Build not found"),
        ("/ui/builds/flights?cursor=nothing", "Build not found"),
    ):
        answer = browser.get(path)
        assert answer.status_code == 404
        assert title in answer.text


def test_only_published_runs_can_be_served(browser: Browser, made: Built) -> None:
    page = browser.get("/ui/builds/flights").text
    offered = re.findall(r'data-body=\'\{"to": "(\w+)"\}\'', page.replace("&#34;", '"'))
    assert offered == [THIRD, FIRST]
    assert 'data-url="/builds/flights/runs' in browser.get(f"/ui/builds/flights/runs/{SELECTED}").text


def test_what_cleanup_would_delete_is_looked_at_on_demand(browser: Browser, made: Built) -> None:
    assert "The preview deletes nothing" in words(browser.get("/ui/builds/flights"))
    page = browser.get("/ui/builds/flights?plan=yes&keep_runs=2&stale_attempt_age=12h")
    said = words(page)
    assert f"data/{FAILED}/" in said
    assert f"data/{FIRST}/" in said
    assert "lost to 00-0" in said
    assert 'data-url="/builds/flights/cleanup?keep_runs=2&amp;stale_attempt_age=12h"' in page.text
    assert layout.manifest(FIRST, 1) in everything(made.storage)
    assert "Nothing to delete" in words(browser.get("/ui/builds/empty?plan=yes"))
    for query in ("keep_runs=0", "keep_runs=many", "keep_runs=99999999", "stale_attempt_age=often"):
        assert browser.get(f"/ui/builds/flights?plan=yes&{query}").status_code == 422


def test_a_run_has_its_shards_with_winners_losers_and_a_chart_and_before_its_manifest_only_attempts(
    browser: Browser, made: Built
) -> None:
    page = browser.get(f"/ui/builds/flights/runs/{THIRD}")
    said = words(page)
    assert "Shards 0 to 3 of 4" in said
    assert "The largest shard is 3 with 1,000 rows: 3.1 times the average of 325" in said
    assert "Shard 3: 1,000 rows" in said
    assert f"data/{THIRD}/shard=00002/attempt=00-0/shard.parquet" in row(page, "2")
    assert "attempt=00-1 " in row(page, "2")
    assert "attempt=00-2 " in row(page, "2")

    page = browser.get(f"/ui/builds/flights/runs/{WRITING}")
    assert "attempt=00-0/" in row(page, "2")
    assert "none yet" in row(page, "1")
    assert '<svg class="chart"' not in page.text
    assert "no space left on &lt;script&gt;" in browser.get(f"/ui/builds/flights/runs/{FAILED}").text

    made.storage.delete(layout.shard_folder(THIRD, 1))
    page = browser.get(f"/ui/builds/flights/runs/{THIRD}")
    assert "missing in storage" in row(page, "1")
    assert "missing in storage" not in row(page, "0")
    made.storage.write(layout.manifest(THIRD, 1), b"{}")
    assert "cannot be used" in words(browser.get(f"/ui/builds/flights/runs/{THIRD}"))


def test_ten_thousand_shards_are_shown_a_page_at_a_time(browser: Browser, made: Built) -> None:
    handle, manifest = made.sized(9, shards=3)
    many = _many(manifest.shards[0], 10_000)
    handle = replace(handle, num_shards=10_000)
    sharding = replace(manifest.sharding, num_shards=10_000)
    publish(made.registry, made.storage, handle, replace(manifest, sharding=sharding, shards=many))
    with made.registry.store.engine.begin() as conn:
        conn.exec_driver_sql("UPDATE build_runs SET num_shards = 10000 WHERE run_id = '20260110T000000Z'")
    page = browser.get("/ui/builds/flights/runs/20260110T000000Z?cursor=7399")
    said = words(page)
    assert "Shards 7,400 to 7,499 of 10,000" in said
    assert "The largest shard is 7431 with 90,000 rows" in said
    assert len(re.findall(r'<tr data-key="\d+">', page.text)) == 100
    assert len(re.findall(r"bar-most", page.text)) <= MOST_BARS
    assert len(page.text) < 200_000
    assert 'href="?cursor=7299"' in page.text
    assert 'href="?cursor=7499"' in page.text


def _many(like: ShardAttemptResult, count: int) -> tuple[ShardAttemptResult, ...]:
    return tuple(replace(like, shard_id=number, rows=90_000 if number == 7431 else 10 + number % 7) for number in range(count))


def test_each_shard_has_a_bar_until_there_are_too_many(made: Built) -> None:
    record = f"data/{FIRST}/shard=00000/attempt=00-0/{layout.RECORD}"
    like = read_attempt(made.storage.read(record), record)
    few, many = skew_chart(_many(like, MOST_BARS)), skew_chart(_many(like, 7432))
    assert (few.group, len(few.chart.columns), few.chart.columns[0].part) == (1, MOST_BARS, 0)
    assert (many.group, len(many.chart.columns) <= MOST_BARS) == (47, True)
    (hot,) = [bar for bar in many.chart.columns if bar.hot]
    assert hot.height == max(bar.height for bar in many.chart.columns) > hot.part > 0
    assert "at most 90,000 in shard 7431" in hot.title
    assert all(bar.x + bar.width <= many.chart.right + 0.1 for bar in many.chart.columns)
    told = skew(_many(like, 10_000))
    assert (told.largest, told.rows, told.empty) == (7431, 90_000, 0)
    assert skew([]).times == 1.0
    assert skew(tuple(replace(shard, rows=0) for shard in _many(like, 3))).times == 1.0


def test_the_audit_trail_leads_to_the_dataset(browser: Browser, made: Built, world: World) -> None:
    world.services.builds().rollback("flights", FIRST, actor=Actor("vera", "page"))
    page = browser.get("/ui/audit")
    assert 'href="/ui/builds/flights"' in page.text
    assert "rolled back" in words(page)
    assert "vera" in words(browser.get("/ui/builds/flights"))
