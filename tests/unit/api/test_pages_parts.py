"""The parts that the pages are made of: words, the filter in the address, charts, the timeline, the way to the task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pages_world import World, compacted, did
from starlette.datastructures import QueryParams

from airflow_snowpack.api.pages.charts import queue_chart
from airflow_snowpack.api.pages.figures import figures
from airflow_snowpack.api.pages.job_query import JobQuery
from airflow_snowpack.api.pages.markup import sentence
from airflow_snowpack.api.pages.navigation import task_link
from airflow_snowpack.api.pages.timeline import spans, steps
from airflow_snowpack.humanize import Text
from airflow_snowpack.jobs import JobStatus, QueueSample
from airflow_snowpack.maintenance import Action

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MINUS = "−"  # noqa: RUF001 - a real minus sign


def told(world: World, job_id: str) -> list[tuple[str, str, float]]:
    job = world.jobs.get(job_id)
    found = spans(job, world.jobs.history(job_id), world.clock())
    return [(span.label, span.tone, span.took.total_seconds()) for span in found]


def test_a_sentence_keeps_its_text_and_marks_its_moments() -> None:
    marked = sentence(Text("It <b>ended</b> at ", datetime(2026, 11, 21, 6, tzinfo=UTC), "; <b>done</b>."))
    assert marked.startswith('It &lt;b&gt;ended&lt;/b&gt; at <time datetime="2026-11-21T06:00:00+00:00" data-as="clock"')
    assert marked.endswith("</time>; &lt;b&gt;done&lt;/b&gt;.")


def test_a_filter_goes_through_the_address_and_back() -> None:
    text = "status=failed&status=running&search=a%26b&dag_id=nightly&dry_run=false&period=24h"
    query = JobQuery.read(QueryParams(text + "&table=&since="), catalog="lake", now=NOW)
    assert query.filter.statuses == {JobStatus.FAILED, JobStatus.RUNNING}
    assert (query.filter.search, query.filter.dag_id, query.filter.dry_run) == ("a&b", "nightly", False)
    assert query.filter.since == NOW - timedelta(hours=24)
    assert query.to_url() == text
    assert query.to_url(status=None, cursor="x") == "search=a%26b&dag_id=nightly&dry_run=false&period=24h&cursor=x"


def test_a_batch_never_reaches_past_the_moment_of_its_page() -> None:
    until = (NOW - timedelta(hours=1)).isoformat()
    query = JobQuery.read(QueryParams({"until": until, "table": "a.b"}), catalog="lake", now=NOW)
    assert "until=2026-11-21T11%3A00" in query.to_api(NOW)
    assert "until=2026-11-21T10%3A00" in query.to_api(NOW - timedelta(hours=2))
    assert "table=a.b" in query.to_api(NOW)


def test_a_chart_says_how_much_less_there_is() -> None:
    (files, size) = figures(compacted(1284, 93, 5, 900))
    assert (files.title, files.change) == ("Data files", f"{MINUS}93 %")
    assert [(bar.label, bar.text, bar.length) for bar in files.bars] == [("before", "1,284", 1000), ("after", "93", 72)]
    assert (size.bars, size.change) == ((), "900.0 MiB")


def test_a_plan_speaks_of_now_and_then() -> None:
    metrics = {"expired_snapshots_count": 96, "kept_snapshots_count": 14, "deleted_data_files_count": 3}
    snapshots, files = figures(did(Action.EXPIRE_SNAPSHOTS, "", 0, metrics), dry_run=True)
    assert [(bar.label, bar.text) for bar in snapshots.bars] == [("now", "110"), ("then", "14")]
    assert files.title == "Files that would be deleted"


def test_what_counted_nothing_has_no_chart() -> None:
    assert figures(compacted(0, 0, 1, 0)) == []
    assert figures(did(Action.REMOVE_ORPHAN_FILES, "No orphan files", 1, {"planned_files_count": 0})) == []


def test_a_lost_attempt_is_in_the_timeline_with_the_one_after_it(world: World) -> None:
    job = world.submit("a.b", by="jana")
    world.clock.move(seconds=30)
    lost = world.jobs.claim("worker-1")
    assert lost is not None
    world.clock.move(minutes=31)
    assert world.jobs.sweep().requeued == (job.job_id,)
    world.clock.move(minutes=2)
    world.run(job, [compacted(10, 2, 90), did(Action.EXPIRE_SNAPSHOTS, "Expired 2 snapshots", 30)], worker="worker-2")
    assert told(world, job.job_id) == [
        ("waited for a worker", "waiting", 30),
        ("lost with its worker", "interrupted", 31 * 60),
        ("waited for a worker", "waiting", 120),
        ("rewrite_data_files", "succeeded", 90),
        ("expire_snapshots", "succeeded", 30),
    ]
    titles = [step.title for step in steps(world.jobs.get(job.job_id), world.jobs.history(job.job_id))]
    assert titles == [
        "Submitted",
        "Claimed, attempt 1",
        "Back in the queue",
        "Claimed, attempt 2",
        "1 heartbeat",
        "rewrite_data_files in 1 min 30 s",
        "expire_snapshots in 30 s",
        "Completed",
    ]


def test_what_a_cancelled_job_was_at_is_shown_as_stopped(world: World) -> None:
    job = world.submit("a.b")
    world.start(job, [compacted(10, 2, 60)])
    world.jobs.cancel(job.job_id, actor=world.actor())
    assert told(world, job.job_id)[1:] == [("rewrite_data_files", "succeeded", 60), ("expire_snapshots", "interrupted", 70)]


def test_a_job_without_its_history_is_told_from_its_row(world: World) -> None:
    job = world.submit("a.b", by="jana")
    world.clock.move(seconds=20)
    world.run(job, [compacted(10, 2, 50), did(Action.EXPIRE_SNAPSHOTS, "Expired 2 snapshots", 10)])
    found = world.jobs.get(job.job_id)
    bars = [(span.label, span.took.total_seconds()) for span in spans(found, [], world.clock())]
    assert bars == [("waited for a worker", 20), ("rewrite_data_files", 50), ("expire_snapshots", 10)]
    assert [step.title for step in steps(found, [])] == ["Submitted", "Started", "Completed"]


def test_bars_lie_within_the_drawing(world: World) -> None:
    job = world.submit("a.b")
    world.clock.move(days=3)
    world.run(job, [compacted(10, 2, 0.2), did(Action.EXPIRE_SNAPSHOTS, "", 0)])
    for span in spans(world.jobs.get(job.job_id), world.jobs.history(job.job_id), world.clock()):
        assert span.x >= 0
        assert span.width > 0
        assert span.x + span.width <= 1000


@pytest.mark.parametrize("highest", [0, 1, 3, 7, 40, 999])
def test_the_drawing_of_the_queue_holds_its_highest_value(highest: int) -> None:
    samples = [QueueSample(NOW - timedelta(minutes=15 * (96 - n)), highest if n == 50 else 0, 0) for n in range(96)]
    drawn = queue_chart(samples)
    assert drawn.levels[-1][0] >= highest
    assert drawn.levels[-1][1] == drawn.top
    assert (len(drawn.tips), drawn.tips[50][1]) == (96, f"running: 0; waiting: {highest}")
    assert (drawn.ticks_as, len(drawn.ticks)) == ("hour", 8)


@pytest.mark.parametrize("owner", [None, "", "somebody", "a/b", "//", "dag/run/", "/run/task"])
def test_an_owner_that_is_no_task_instance_leads_nowhere(owner: str | None) -> None:
    assert task_link(owner, "") is None


def test_a_run_may_have_slashes_in_its_name() -> None:
    assert task_link("dag/manual/2026/task", "/airflow") == "/airflow/dags/dag/runs/manual%2F2026/tasks/task"
    assert task_link("dag/run/task[12]", "") == "/dags/dag/runs/run/tasks/task/mapped/12"
    assert task_link("dag/run/task", None) is None
