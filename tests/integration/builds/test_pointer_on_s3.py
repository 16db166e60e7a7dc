"""On S3 the pointer is replaced only if it is still the one that was read; where that is not possible, the lock protects it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from built_runs import DATASET, DAY, MIDNIGHT, built, current_run, published
from clocks import MovedClock
from s3_server import Request, s3_server

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import ObjectChanged, PointerMoved
from airflow_snowpack.builds.json_format import read_current, to_json
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry.model import RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine

URL = "s3://lake/builds/flights"


class Watched:
    """Inspects each write of the pointer before the server does."""

    def __init__(self) -> None:
        self.before: Callable[[], bool] = lambda: True
        self.writes = 0

    def __call__(self, request: Request) -> bool:
        if request.method == "PUT" and request.path.endswith(layout.CURRENT):
            self.writes += 1
            return self.before()
        return True


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def options(watched: Watched) -> Iterator[dict[str, Any]]:
    with s3_server(before=watched) as options:
        yield options


@pytest.fixture
def on_s3(options: dict[str, Any]) -> Storage:
    return Storage(URL, options, sleep=lambda _: None)


@pytest.fixture
def other_registry(migrated_sqlite: Path, tmp_path: Path, clock: MovedClock) -> Iterator[BuildRegistry]:
    """The registry of another installation, which knows nothing of this one's locks."""
    database = shutil.copy(migrated_sqlite, tmp_path / "other.db")
    with Store(open_engine(f"sqlite:///{database}"), clock) as store:
        yield BuildRegistry(store, sleep=lambda _: None)


@pytest.mark.one_database
def test_a_write_after_another_process_was_faster_is_refused(on_s3: Storage, options: dict[str, Any]) -> None:
    assert on_s3.read_version(layout.CURRENT)[0] is None
    nothing = on_s3.read_version(layout.CURRENT)[1]
    on_s3.replace(layout.CURRENT, b"first", nothing)
    with pytest.raises(ObjectChanged):
        on_s3.replace(layout.CURRENT, b"also first", nothing)
    found, version = on_s3.read_version(layout.CURRENT)
    Storage(URL, options).write(layout.CURRENT, b"faster")
    with pytest.raises(ObjectChanged):
        on_s3.replace(layout.CURRENT, b"slower", version)
    assert (found, on_s3.read(layout.CURRENT)) == (b"first", b"faster")
    on_s3.delete(layout.CURRENT)
    with pytest.raises(ObjectChanged):
        on_s3.replace(layout.CURRENT, b"slower", version)


def test_a_publisher_that_sleeps_through_its_lease_cannot_overwrite_a_newer_pointer(
    registry: BuildRegistry, on_s3: Storage, watched: Watched, clock: MovedClock, options: dict[str, Any]
) -> None:
    published(registry, on_s3, 0)
    slow = built(registry, on_s3, MIDNIGHT + DAY)
    fast = built(registry, on_s3, MIDNIGHT + 2 * DAY)
    seen: list[str | None] = []

    def sleep() -> bool:
        watched.before = lambda: True
        clock.move(registry.policy.lock_lease)
        publish(registry, Storage(URL, options), *fast)
        seen.append(current_run(on_s3))
        return True

    watched.before = sleep
    publish(registry, on_s3, *slow)
    assert seen == [fast[0].run_id]
    assert current_run(on_s3) == fast[0].run_id
    assert watched.writes >= 3, "the slow one did send its write"
    publications = registry.publications(DATASET)
    pointer = read_pointer(on_s3)
    assert pointer is not None
    assert pointer.publication == publications[0].number


@pytest.mark.one_database
def test_two_installations_without_a_common_store_do_not_overwrite_each_other(
    registry: BuildRegistry, other_registry: BuildRegistry, on_s3: Storage, watched: Watched, options: dict[str, Any]
) -> None:
    mine = built(registry, on_s3, MIDNIGHT)
    others = built(other_registry, on_s3, MIDNIGHT + DAY)

    def be_faster() -> bool:
        watched.before = lambda: True
        publish(other_registry, Storage(URL, options), *others)
        return True

    watched.before = be_faster
    with pytest.raises(PointerMoved, match="is at publication 1, and this would be 1"):
        publish(registry, on_s3, *mine)
    assert current_run(on_s3) == others[0].run_id
    assert registry.run(DATASET, mine[0].run_id).status is RunStatus.FAILED
    assert published(registry, on_s3, 2) == [current_run(on_s3)]
    pointer = read_pointer(on_s3)
    assert pointer is not None
    assert pointer.publication == 2, "it goes on from what it found"


@pytest.mark.one_database
def test_a_write_whose_answer_was_lost_counts(registry: BuildRegistry, on_s3: Storage, watched: Watched) -> None:
    published(registry, on_s3, 0)
    handle, manifest = built(registry, on_s3, MIDNIGHT + DAY)
    real = on_s3._conditional
    assert real is not None
    replace = real.replace

    def lose_the_answer(bucket: str, key: str, data: bytes, version: str) -> None:
        replace(bucket, key, data, version)
        real.replace = replace  # type: ignore[method-assign]
        raise OSError("the connection was reset")

    real.replace = lose_the_answer  # type: ignore[method-assign]
    assert publish(registry, on_s3, handle, manifest).moved
    assert (current_run(on_s3), watched.writes) == (handle.run_id, 2)


@pytest.mark.one_database
@pytest.mark.parametrize("why", ["an option that only Arrow's client knows", "no botocore", "a client that does not get through"])
def test_without_a_compare_and_set_the_pointer_is_replaced_under_the_lock_alone(
    registry: BuildRegistry, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "no botocore":
        monkeypatch.setitem(sys.modules, "botocore", None)
        storage = Storage(URL, options)
    elif why == "a client that does not get through":
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # which Arrow's client does not read
        storage = Storage(URL, options, sleep=lambda _: None)
    else:
        storage = Storage(URL, options | {"default_metadata": {"Content-Type": "application/json"}})
    assert published(registry, storage, 0, 1)[-1] == current_run(storage)
    assert storage.read_version(layout.CURRENT)[1] is None


@pytest.mark.one_database
def test_a_pointer_of_a_number_that_nothing_counts_to_is_written_again(registry: BuildRegistry, storage: Storage) -> None:
    (run_id,) = published(registry, storage, 0)
    pointer = read_current(storage.read(layout.CURRENT), layout.CURRENT)
    for number in (2**63 - 1, 2**70):
        storage.write(layout.CURRENT, to_json(pointer).replace(b'"publication": 1', f'"publication": {number}'.encode()))
        assert published(registry, storage, 1)[-1] == current_run(storage)
    assert registry.dataset(DATASET).publication == 3
    assert run_id != current_run(storage)
