"""A signal whose handler raises in the middle of a write to S3, as Airflow's handlers of SIGTERM and of a time limit do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from s3_server import s3_server

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.storage import Storage


class Terminated(Exception):
    """What the handler raises."""


class Signalled:
    """A file system whose process is terminated right after a stream for an object was opened."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open_output_stream(self, path: str) -> Any:
        stream = self._inner.open_output_stream(path)
        os.kill(os.getpid(), signal.SIGTERM)
        return stream


@pytest.fixture
def raising() -> Iterator[None]:
    def end(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("raising")
def test_a_pointer_is_replaced_whole_when_the_task_is_terminated_meanwhile() -> None:
    with s3_server() as options:
        storage = Storage("s3://lake/flights", options)
        storage.write(layout.CURRENT, b"the build before")
        storage._fs = Signalled(storage._fs)  # between the opening of the stream and its end there is no other way in
        with pytest.raises(Terminated):
            storage.write(layout.CURRENT, b"this build")
        assert Storage("s3://lake/flights", options).read(layout.CURRENT) == b"this build"
