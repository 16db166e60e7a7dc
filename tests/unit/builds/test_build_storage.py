"""A storage keeps objects whole, finds them by folder, and never leaves its own folder."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from built_runs import everything

from airflow_snowpack.builds.errors import InvalidBuild, ObjectMissing
from airflow_snowpack.builds.storage import Deleted, Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "set")


def test_what_was_written_is_read_listed_and_deleted(storage: Storage) -> None:
    storage.write("data/a/one", b"1")
    storage.write("data/ab/two", b"22")
    assert storage.read("data/a/one") == b"1"
    assert [(found.path, found.bytes) for found in storage.objects("data/a/")] == [("data/a/one", 1)]
    assert storage.delete("data/a/") == Deleted(1, 1)
    assert everything(storage) == {"data/ab/two"}
    assert storage.delete("data/ab/two").objects == 1
    assert everything(storage) == set()


def test_a_missing_object_is_another_error_than_a_failing_storage(storage: Storage) -> None:
    with pytest.raises(ObjectMissing, match="no such object"):
        storage.read("_CURRENT")
    assert storage.delete("_CURRENT").objects == 0
    assert list(storage.objects("nowhere/")) == []


def test_a_half_written_object_is_never_listed(storage: Storage) -> None:
    storage.write("data/one", b"1")
    storage.local_path("data/one.writing-0").write_bytes(b"ha")
    assert [found.path for found in storage.objects("data/")] == ["data/one"]


@pytest.mark.parametrize("path", ["../other", "a/../../other", "/etc"])
def test_a_path_outside_of_the_storage_is_refused(storage: Storage, path: str) -> None:
    with pytest.raises(ValueError, match="not a path inside"):
        storage.delete(path)


def test_a_folder_is_named_with_its_slash(storage: Storage) -> None:
    with pytest.raises(ValueError, match="must end in '/'"):
        list(storage.objects("data"))


def test_a_storage_travels_to_other_processes_and_hides_its_options(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}", {})
    storage.write("one", b"1")
    assert pickle.loads(pickle.dumps(storage)).read("one") == b"1"
    assert "secret" not in repr(Storage("memory://x", {"skip_instance_cache": "secret"}))


def test_an_unknown_scheme_is_refused_with_its_name() -> None:
    with pytest.raises(InvalidBuild, match="nothing://"):
        Storage("nothing://bucket")
