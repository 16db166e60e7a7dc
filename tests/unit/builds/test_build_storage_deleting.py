"""A folder is deleted at once where that works, and as far as it goes where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from failing_storage import failing_storage

from airflow_snowpack.builds.errors import StorageFailed
from airflow_snowpack.builds.storage import Deleted, Storage


def filled(folder: Path) -> Storage:
    storage = Storage(folder)
    for path in ("data/a/one", "data/a/b/two", "data/ab/three"):
        storage.write(path, path.encode())
    return storage


def names(storage: Storage) -> list[str]:
    return sorted(found.path for found in storage.objects(""))


def test_a_folder_goes_with_what_was_half_written_in_it(tmp_path: Path) -> None:
    storage = filled(tmp_path)
    storage.local_path("data/a/four.writing-0").write_bytes(b"4")
    assert [found.path for found in storage.objects("data/a/b/")] == ["data/a/b/two"]
    assert len(list(storage.objects("data/a/"))) == 2
    assert len(list(storage.objects("data/a/", half_written=True))) == 3
    assert storage.delete("data/a/") == Deleted(3, len("data/a/one") + len("data/a/b/two") + 1)
    assert names(storage) == ["data/ab/three"]
    assert storage.delete("data/a/") == Deleted(0, 0)


def test_what_cannot_be_deleted_at_once_is_deleted_one_by_one(tmp_path: Path) -> None:
    sound = filled(tmp_path)

    def no_folders(name: str, path: str) -> None:
        if name == "delete_dir":
            raise OSError("not at once")

    assert failing_storage(tmp_path, no_folders).delete("data/a/").objects == 2
    assert names(sound) == ["data/ab/three"]


def test_one_object_that_stays_does_not_keep_the_others(tmp_path: Path) -> None:
    sound = filled(tmp_path)

    def stubborn(name: str, path: str) -> None:
        if name == "delete_dir" or (name == "delete_file" and path.endswith("one")):
            raise OSError("it is locked")

    done = failing_storage(tmp_path, stubborn).delete("data/a/")
    assert (done.objects, done.bytes) == (1, len("data/a/b/two"))
    assert len(done.problems) == 1
    assert "data/a/one" in done.problems[0]
    assert "it is locked" in done.problems[0]
    assert names(sound) == ["data/a/one", "data/ab/three"]


def test_a_write_is_tried_as_often_as_its_caller_wants(tmp_path: Path) -> None:
    tries = []

    def never(name: str, path: str) -> None:
        if name == "open_output_stream":
            tries.append(path)
            raise OSError("no")

    storage = failing_storage(tmp_path, never)
    for allowed in (1, 3):
        tries.clear()
        with pytest.raises(StorageFailed, match="Could not write"):
            storage.write("one", b"1", tries=allowed)
        assert len(tries) == allowed


class ClientError(Exception):
    """What a library below fsspec raises, such as botocore's: it is no OSError."""


def test_an_error_of_a_library_is_retried_and_reported_like_any_other(tmp_path: Path) -> None:
    sound, calls = filled(tmp_path), []

    def failing(name: str, path: str) -> None:
        calls.append(name)
        if name == "delete_dir" or (name == "delete_file" and path.endswith("one")):
            raise ClientError("SlowDown")
        if name == "open_input_stream" and calls.count(name) < 3:
            raise ClientError("SlowDown")

    storage = failing_storage(tmp_path, failing)
    assert storage.read("data/ab/three") == b"data/ab/three"
    done = storage.delete("data/a/")
    assert (done.objects, len(done.problems)) == (1, 1)
    assert "data/a/one: SlowDown" in done.problems[0]
    assert names(sound) == ["data/a/one", "data/ab/three"]


def test_a_call_that_is_wrong_is_not_taken_for_a_storage_that_fails(tmp_path: Path) -> None:
    def wrong(name: str, path: str) -> None:
        raise TypeError("it takes no such argument")

    with pytest.raises(TypeError, match="no such argument"):
        failing_storage(tmp_path, wrong).read("one")
