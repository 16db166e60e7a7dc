"""Images in the store: each content is built once, failures are limited, and only the attempt with the fence counts."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from clocks import MovedClock
from image_world import DIGEST, DOCKERFILE, REGISTRY, NotedBuilder, Repository
from query_plans import scans, sent_by

from airflow_snowpack.runners.images import (
    BuilderUnavailable,
    Building,
    Failed,
    ImageBuild,
    ImageBuildFailed,
    ImageBuildNotFound,
    ImageBuilds,
    ImagePolicy,
    ImageState,
    ImageTarget,
    Ready,
    RevisionNotFound,
)
from airflow_snowpack.runners.images.builders import BuildJob
from airflow_snowpack.runners.images.commands import CommandFailed
from airflow_snowpack.runners.images.explanation import explain
from airflow_snowpack.runners.images.model import AttemptOutcome
from airflow_snowpack.runners.images.records import KINDS, NEWEST_FIRST
from airflow_snowpack.store import Actor, AuditTrail, InvalidCursor, Store
from airflow_snowpack.store.retention import Pruner

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
VERA = Actor("vera", via="cli")


def failing(job: BuildJob) -> None:
    job.commands.run(["sh", "-c", "echo compiling; echo no compiler >&2; exit 3"], job.scratch)


def test_an_image_is_built_once_and_then_used(images: ImageBuilds, builder: NotedBuilder, repository: Repository) -> None:
    commit = repository.commit(DOCKERFILE)
    first = images.ensure(ImageBuild(repository.url, "main"), build=True)
    assert first == images.ensure(ImageBuild(repository.url, "main"), build=True)
    assert isinstance(first, Ready)
    assert (first.commit, first.reference, first.digest) == (commit, f"{REGISTRY.name}@{DIGEST}", DIGEST)
    assert builder.files == [DOCKERFILE]  # the files of the commit, without .git
    (job,) = builder.jobs
    assert job.tag == f"registry.example.com/team/images:{first.key}"


@pytest.mark.one_database
def test_two_branches_on_one_commit_are_one_image(images: ImageBuilds, builder: NotedBuilder, repository: Repository) -> None:
    commit = repository.commit(DOCKERFILE)
    repository.git("branch", "release", "main")
    repository.git("-c", "user.name=T", "-c", "user.email=t@example.com", "tag", "-a", "-m", "first", "v1", "main")
    revisions = ["main", "release", "v1", "refs/heads/main", "HEAD", commit]
    found = {images.ensure(ImageBuild(repository.url, revision), build=True) for revision in revisions}
    assert len(found) == 1
    assert len(builder.jobs) == 1
    assert images.get(found.pop().key).revision == "main"


@pytest.mark.one_database
def test_a_branch_that_moved_is_another_image(images: ImageBuilds, builder: NotedBuilder, repository: Repository) -> None:
    source = ImageBuild(repository.url, "main")
    first = repository.commit(DOCKERFILE)
    before = images.ensure(source, build=True)
    second = repository.commit({**DOCKERFILE, "score.py": "print(2)\n"})
    after = images.ensure(source, build=True)
    assert (before.commit, after.commit) == (first, second)
    assert builder.files[1]["score.py"] == "print(2)\n"
    assert images.ensure(source.at(first), build=True) == before  # a task that waited keeps its commit


def test_a_request_of_a_ready_image_is_one_statement(images: ImageBuilds, store: Store, source: ImageBuild) -> None:
    images.ensure(source, build=True)
    sent = sent_by(store, lambda: images.ensure(source, build=True))
    assert [statement.split()[0] for statement, _ in sent] == ["SELECT"]


def test_without_build_an_image_is_only_requested(images: ImageBuilds, builder: NotedBuilder, source: ImageBuild) -> None:
    found = images.ensure(source, actor=VERA)
    assert isinstance(found, Building)
    assert (found.holder, found.is_free, found.attempt) == (None, True, 0)
    assert builder.jobs == []
    assert isinstance(images.ensure(source, build=True), Ready)
    trail = [(entry.actor, entry.change) for entry in AuditTrail(images.store).of(f"image:{found.key}")]
    assert trail == [("vera", "build_image")]


def test_a_request_finds_the_process_that_builds(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, clock: MovedClock
) -> None:
    seen: list[Ready | Building] = []
    builder.work = lambda _: seen.append(images.ensure(source, build=True, holder="other/task"))
    since = clock()
    images.ensure(source, build=True, holder="dag/run/task")
    (found,) = seen
    assert isinstance(found, Building)
    assert (found.holder, found.since, found.until) == ("dag/run/task", since, since + timedelta(minutes=30))
    assert (found.is_free, found.attempt) == (False, 1)
    assert len(builder.jobs) == 1


def test_failures_are_retried_up_to_the_limit_and_reported_with_the_log(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, clock: MovedClock
) -> None:
    builder.work = failing
    first = images.ensure(source, build=True)
    assert isinstance(first, Building)
    assert (first.holder, first.until, first.attempt) == (None, clock() + 1 * MINUTE, 1)
    assert images.ensure(source, build=True) == first  # nothing is built during the back-off
    clock.move(1 * MINUTE)
    second = images.ensure(source, build=True)
    assert isinstance(second, Building)
    assert second.until == clock() + 2 * MINUTE
    clock.move(2 * MINUTE)
    with pytest.raises(ImageBuildFailed, match=r"in 3 attempts: sh ended with exit code 3: no compiler.*images forget") as failed:
        images.ensure(source, build=True)
    assert failed.value.log.splitlines() == ["compiling", "no compiler"]
    assert images.log(first.key) == failed.value.log
    with pytest.raises(ImageBuildFailed):
        images.ensure(source, build=True)
    assert len(builder.jobs) == 3
    record = images.get(first.key)
    assert (record.state, record.attempts, record.error) == (ImageState.FAILED, 3, "sh ended with exit code 3: no compiler.")


def test_a_failed_image_is_tried_again_after_an_hour_or_when_it_was_forgotten(
    images: ImageBuilds, builder: NotedBuilder, repository: Repository, clock: MovedClock
) -> None:
    source = ImageBuild(repository.url, repository.commit({"score.py": ""}), "missing/Dockerfile")
    with pytest.raises(ImageBuildFailed, match=r"in 1 attempt: The commit .* has no file 'missing/Dockerfile'") as failed:
        images.ensure(source, build=True)  # the next attempt would find no Dockerfile either
    key = failed.value.key
    with pytest.raises(ImageBuildFailed):
        images.ensure(source)
    assert images.forget(key, actor=VERA).state is ImageState.FAILED
    assert [entry.change for entry in AuditTrail(images.store).of(f"image:{key}")] == ["forget_image"]
    assert isinstance(images.ensure(source), Building)
    with pytest.raises(ImageBuildFailed):
        images.ensure(source, build=True)
    state = images.states([key])[key]
    assert isinstance(state, Failed)
    assert state.retry_at == clock() + timedelta(hours=1)
    clock.move(timedelta(hours=1))
    found = images.ensure(source)
    assert isinstance(found, Building)
    assert (found.is_free, found.attempt) == (True, 0)


def test_a_build_whose_process_is_gone_is_taken_over_after_its_lease(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, clock: MovedClock, caplog: pytest.LogCaptureFixture
) -> None:
    other = ImageBuilds(images.store, images.target, builder=NotedBuilder())
    results: list[Ready | Building] = []

    def sleep_for_long(_: BuildJob) -> None:
        clock.move(timedelta(minutes=30))
        results.append(other.ensure(source, build=True, holder="second"))

    builder.work = sleep_for_long
    assert images.ensure(source, build=True, holder="first") == results[0]
    assert isinstance(results[0], Ready)
    assert builder.published == []  # the late attempt did not even replace the tag
    assert "writeback_stale_attempt" in caplog.text
    assert images.get(results[0].key).attempts == 2


@pytest.fixture
def beating(store: Store, builder: NotedBuilder) -> ImageBuilds:
    """Images whose lease is renewed a hundred times a second."""
    policy = ImagePolicy(heartbeat=timedelta(milliseconds=10))
    return ImageBuilds(store, ImageTarget(registry=REGISTRY), policy, builder=builder)


def test_the_lease_is_renewed_while_a_build_lasts(
    beating: ImageBuilds, builder: NotedBuilder, source: ImageBuild, clock: MovedClock
) -> None:
    renewed, until = threading.Semaphore(0), clock() + timedelta(minutes=49)

    def note_renewal(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE image_builds SET visible_at"):
            renewed.release()

    def lasting(job: BuildJob) -> None:
        clock.move(timedelta(minutes=19))
        sa.event.listen(beating.store.engine, "after_cursor_execute", note_renewal)
        for _ in range(3):  # the first one may have read the clock before, and the third comes after the commit of the second
            assert renewed.acquire(timeout=PATIENCE_S)
        assert beating.get(job.key).lease_until == until
        clock.move(timedelta(minutes=29))  # 48 minutes after the claim
        found = beating.ensure(job.source, build=True, holder="other")
        assert isinstance(found, Building)
        assert not found.is_free

    builder.work = lasting
    assert isinstance(beating.ensure(source, build=True), Ready)
    assert len(builder.jobs) == 1


def test_a_process_that_has_lost_its_lease_ends_its_program(
    beating: ImageBuilds, builder: NotedBuilder, source: ImageBuild, caplog: pytest.LogCaptureFixture
) -> None:
    other = ImageBuilds(beating.store, beating.target, builder=NotedBuilder())

    def lasting(job: BuildJob) -> None:
        other.ensure(source, build=True, holder="dag/run/task")  # a later try of the same task
        job.commands.run(["sleep", "3600"], job.scratch)

    builder.work = lasting
    found = beating.ensure(source, build=True, holder="dag/run/task")
    assert isinstance(found, Ready)
    assert found == other.ensure(source)
    assert builder.published == []
    assert "fence_moved: the image" in caplog.text
    assert "writeback_stale_attempt: the image" in caplog.text


def test_no_statement_about_images_walks_over_all_of_them(images: ImageBuilds, source: ImageBuild, clock: MovedClock) -> None:
    key = images.ensure(source, build=True).key
    page = images.list(limit=1)

    def every() -> None:
        images.ensure(replace(source, build_args={"A": "1"}), build=True)
        images.states([key, "other"])
        images.list(limit=1, cursor=NEWEST_FIRST.cursor_of(page.items[0]))
        images.keys_beginning(key[:8])
        Pruner(images.store, KINDS, older_than=30 * DAY).run(sleep=lambda _: None)
        images.forget(key)

    assert scans(images.store, sent_by(images.store, every), ["image_builds"]) == []


def test_a_late_result_is_refused(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, caplog: pytest.LogCaptureFixture
) -> None:
    publish = builder.publish
    other = ImageBuilds(images.store, images.target, builder=NotedBuilder())

    def replaced(job: BuildJob, image_id: str) -> str:
        other.ensure(source, build=True, holder="dag/run/task")  # a retry of the same task takes over at once
        publish(job, image_id)
        return f"sha256:{'e' * 64}"

    builder.publish = replaced  # type: ignore[method-assign]
    found = images.ensure(source, build=True, holder="dag/run/task")
    assert isinstance(found, Ready)
    assert found.digest == DIGEST
    assert "writeback_stale_attempt" in caplog.text


@pytest.mark.parametrize(
    ("is_task", "reason"),
    [(False, "The lease of the last attempt, by it, expired"), (True, "The last attempt, by an earlier try of it, did not end")],
)
def test_an_image_whose_builders_or_tries_were_all_killed_has_failed(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, clock: MovedClock, is_task: bool, reason: str
) -> None:
    key = images.ensure(source).key
    for _ in range(3):
        assert images._attempts.claim(key, "it", is_task=is_task) is not None  # and is killed
        assert images._attempts.claim(key, "other", is_task=is_task) is None
        clock.move(timedelta(0) if is_task else timedelta(minutes=30))  # a task's next try does not wait for the lease
    with pytest.raises(ImageBuildFailed, match=f"in 3 attempts: {reason}"):
        images.ensure(source, build=True, holder="it" if is_task else None)
    assert builder.jobs == []


@pytest.mark.one_database
def test_a_worker_that_cannot_build_uses_up_no_attempt(
    images: ImageBuilds, source: ImageBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BuilderUnavailable, match="'git'"):
        images.ensure(source, build=True)
    without_builder = ImageBuilds(images.store, images.target)
    with pytest.raises(BuilderUnavailable):
        without_builder.ensure(source, build=True)
    (record,) = images.list().items
    assert (record.state, record.attempts) == (ImageState.WAITING, 0)


@pytest.mark.one_database
@pytest.mark.parametrize("target", ["Dockerfile", "../../outside", "/etc/hostname"])
def test_a_dockerfile_that_is_a_link_stays_in_the_repository(
    images: ImageBuilds, builder: NotedBuilder, repository: Repository, temporary: Path, target: str
) -> None:
    (temporary / "outside").write_text(DOCKERFILE["Dockerfile"])
    source = ImageBuild(repository.url, repository.commit({"Dockerfile": f"->{target}"}))
    with pytest.raises(ImageBuildFailed, match=r"in 1 attempt: The commit .* has no file 'Dockerfile'"):
        images.ensure(source, build=True)
    assert builder.jobs == []


def test_a_stopped_build_returns_to_the_queue_and_does_not_count(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild
) -> None:
    from airflow_snowpack.runners.images.errors import ImageBuildStopped

    def stopped(job: BuildJob) -> None:
        images.stop()
        job.commands.run(["true"], job.scratch)

    builder.work = stopped
    with pytest.raises(ImageBuildStopped):
        images.ensure(source, build=True)
    (record,) = images.list().items
    assert (record.state, record.attempts, record.holder, record.error) == (ImageState.WAITING, 0, None, None)
    builder.work = lambda _: None
    assert isinstance(images.ensure(source, build=True), Ready)


def test_an_image_that_the_registry_refuses_is_pushed_later_and_neither_built_again_nor_counted_as_an_attempt(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, clock: MovedClock
) -> None:
    refusals = images.policy.max_attempts + 2
    builder.refusals = [CommandFailed("buildah", "ended with exit code 125", ["503 Service Unavailable"])] * refusals
    waits = []
    for _ in range(refusals):
        found = images.ensure(source, build=True)
        assert isinstance(found, Building)
        waits.append(found.until - clock())
        (record,) = images.list().items
        assert (record.state, record.attempts, record.holder) == (ImageState.WAITING, 0, None)
        assert "is kept, but it could not be pushed to the registry: buildah ended" in (record.error or "")
        explained = str(explain(record, images.policy, clock()))
        assert "503 Service Unavailable. The push is retried at " in explained
        assert images.ensure(source, build=True) == found, "a back-off is waited for"
        clock.move(found.until - clock())
    assert waits == [images.policy.retry_base * 2**n for n in range(1, refusals + 1)]
    ready = images.ensure(source, build=True)
    assert isinstance(ready, Ready)
    assert (len(builder.jobs), builder.published, ready.digest) == (1, [f"sha256:{1:064}"], DIGEST)
    assert [each.outcome for each in images.attempts(ready.key)] == [
        AttemptOutcome.SUCCEEDED,
        *[AttemptOutcome.UNPUSHED] * refusals,
    ]


@pytest.mark.one_database
def test_a_host_without_the_image_that_was_not_pushed_builds_it(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, clock: MovedClock
) -> None:
    builder.refusals = [CommandFailed("buildah", "ended with exit code 125")]
    found = images.ensure(source, build=True)
    assert isinstance(found, Building)
    clock.move(found.until - clock())
    builder.tags.clear()
    assert isinstance(images.ensure(source, build=True), Ready)
    assert builder.published == [f"sha256:{2:064}"]


@pytest.mark.one_database
@pytest.mark.parametrize(("error", "attempts"), [(KeyboardInterrupt, 0), (ZeroDivisionError, 1)])
def test_an_unexpected_error_is_raised_and_counts_unless_it_ends_the_process(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, error: type[BaseException], attempts: int
) -> None:
    def interrupted(_: BuildJob) -> None:
        raise error

    builder.work = interrupted
    with pytest.raises(error):
        images.ensure(source, build=True)
    (record,) = images.list().items
    assert (record.state, record.attempts, record.holder) == (ImageState.WAITING, attempts, None)


@pytest.mark.one_database
def test_no_log_and_no_row_has_the_value_of_a_build_argument(
    images: ImageBuilds, builder: NotedBuilder, repository: Repository, store: Store
) -> None:
    secret = "s3cret-of-the-build\nsecond-line-of-it"
    source = ImageBuild(repository.url, repository.commit(DOCKERFILE), build_args={"TOKEN": secret, "NAME": "x"})
    lines: list[str] = []

    def printing(job: BuildJob) -> None:
        said = f"{secret}; {REGISTRY.password}; https://user:pw@host/x?token=y"
        job.commands.run(["printf", "%s", said], job.scratch)
        raise CommandFailed("sh", f"ended with {secret}")

    builder.work = printing
    found = images.ensure(source, build=True, on_line=lines.append)
    assert "".join(lines).count("***") == 3
    assert images.get(found.key).build_args == ("NAME", "TOKEN")
    with store.engine.connect() as conn:
        row = str(conn.exec_driver_sql("SELECT * FROM image_builds").all())
    for text in (row, str(lines), images.log(found.key), repr(source), str(images.get(found.key).error)):
        assert "s3cret" not in text
        assert "second-line" not in text
        assert "hunter2" not in text
        assert "user:pw" not in text


@pytest.mark.one_database
def test_the_end_of_a_long_log_is_stored(images: ImageBuilds, builder: NotedBuilder, source: ImageBuild) -> None:
    def talking(job: BuildJob) -> None:
        job.commands.run(["seq", "-f", "line %.0f of a build that says much", "10000"], job.scratch)

    builder.work = talking
    found = images.ensure(source, build=True, on_line=lambda _: None)
    text = images.log(found.key)
    assert 60_000 < len(text) < 66_000
    assert text.startswith("[8")
    assert text.endswith("line 10000 of a build that says much")


@pytest.mark.one_database
def test_without_a_registry_each_host_builds_its_own(store: Store, source: ImageBuild) -> None:
    hosts = {name: NotedBuilder() for name in ("w1", "w2")}
    found = {
        name: ImageBuilds(store, ImageTarget(host=name), builder=builder).ensure(source, build=True)
        for name, builder in hosts.items()
    }
    first = found["w1"]
    assert isinstance(first, Ready)
    assert first.key != found["w2"].key
    assert first.reference == f"snowpack:{first.key}"
    images = ImageBuilds(store, ImageTarget(host="w1"), builder=hosts["w1"])
    assert images.ensure(source, build=True) == first
    assert images.get(first.key).place == "host:w1/docker"
    assert len(hosts["w1"].jobs) == 1


@pytest.mark.one_database
def test_an_image_that_was_removed_from_its_host_is_built_again(store: Store, source: ImageBuild, clock: MovedClock) -> None:
    builder = NotedBuilder()
    images = ImageBuilds(store, ImageTarget(host="w1"), builder=builder)
    found = images.ensure(source, build=True)
    builder.tags.clear()
    clock.move(1 * MINUTE)
    again = images.ensure(source, build=True)
    assert again.key == found.key
    assert isinstance(again, Ready)
    assert len(builder.jobs) == 2


def test_the_list_goes_on_after_its_cursor(images: ImageBuilds, repository: Repository, clock: MovedClock) -> None:
    keys = []
    for number in range(5):
        keys.append(images.ensure(ImageBuild(repository.url, repository.commit({"Dockerfile": str(number)}))).key)
        clock.move(1 * MINUTE)
    page = images.list(limit=2)
    pages = [page]
    while page.next is not None:
        page = images.list(limit=2, cursor=page.next)
        pages.append(page)
    assert [[record.key for record in page.items] for page in pages] == [keys[:2:-1], keys[2:0:-1], keys[:1]]
    assert images.list(state=ImageState.READY).items == ()
    assert len(images.list(state=ImageState.WAITING).items) == 5
    with pytest.raises(InvalidCursor):
        images.list(cursor="nonsense")


def test_states_of_many_images_are_one_statement(images: ImageBuilds, store: Store, source: ImageBuild) -> None:
    found = images.ensure(source, build=True)
    requested = images.ensure(replace(source, build_args={"A": "1"}))
    keys = [found.key, requested.key, "unknown"]
    sent = sent_by(store, lambda: images.states(keys))
    assert len(sent) == 1
    assert images.states(keys) == {found.key: found, requested.key: requested, "unknown": None}


@pytest.mark.one_database
def test_an_unknown_image_is_an_error_of_its_own(images: ImageBuilds) -> None:
    for ask in (images.get, images.log, images.forget):
        with pytest.raises(ImageBuildNotFound, match="under the key 'nothing'"):
            ask("nothing")


def test_a_build_that_is_forgotten_meanwhile_has_no_result(
    images: ImageBuilds, builder: NotedBuilder, source: ImageBuild, caplog: pytest.LogCaptureFixture
) -> None:
    builder.work = lambda job: images.forget(job.key)
    found = images.ensure(source, build=True)
    assert isinstance(found, Building)  # requested again, and built by the next call
    assert "writeback_stale_attempt" in caplog.text
    assert builder.published == []


def test_an_unused_image_is_forgotten_and_a_used_one_kept(images: ImageBuilds, source: ImageBuild, clock: MovedClock) -> None:
    from airflow_snowpack.installation import retained_rows

    unused = replace(source, build_args={"A": "1"})
    keys = [images.ensure(source, build=True).key for source in (source, unused)]
    building = images.ensure(replace(source, build_args={"B": "1"})).key
    attempt = images._attempts.claim(building, "w", is_task=False)
    assert attempt is not None
    killed = images.ensure(replace(source, build_args={"C": "1"})).key
    images._attempts.claim(killed, "w", is_task=False)
    clock.move(20 * DAY)
    images.ensure(source, build=True)
    clock.move(20 * DAY)
    images._attempts.renew(attempt)
    rows = Pruner(images.store, retained_rows(images.store), older_than=30 * DAY).run(sleep=lambda _: None)
    assert (rows["image_builds"], rows["image_attempts"]) == (2, 2), "the unused one, and the one whose process was killed"
    assert {record.key for record in images.list().items} == {keys[0], building}


def test_an_image_that_is_used_each_day_survives_a_short_period(
    images: ImageBuilds, source: ImageBuild, clock: MovedClock
) -> None:
    key = images.ensure(source, build=True).key
    clock.move(DAY - MINUTE)
    assert isinstance(images.ensure(source), Ready)
    clock.move(60 * MINUTE)
    Pruner(images.store, KINDS, older_than=120 * MINUTE).run(sleep=lambda _: None)
    assert images.get(key).state is ImageState.READY


@pytest.mark.one_database
def test_an_unknown_revision_enters_nothing(images: ImageBuilds, repository: Repository) -> None:
    repository.commit(DOCKERFILE)
    with pytest.raises(RevisionNotFound, match=r"The revision 'nothing' of file://.*has neither a branch nor a tag of this name"):
        images.ensure(ImageBuild(repository.url, "nothing"), build=True)
    assert images.list().items == ()


@pytest.mark.one_database
def test_scratch_folders_are_removed(images: ImageBuilds, builder: NotedBuilder, repository: Repository, temporary: Path) -> None:
    source = ImageBuild(repository.url, "main")
    repository.commit(DOCKERFILE)
    images.ensure(source, build=True)
    repository.commit({**DOCKERFILE, "more": ""})
    builder.work = failing
    images.ensure(source, build=True)
    assert list(temporary.iterdir()) == []
