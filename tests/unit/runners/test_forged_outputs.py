"""Whatever names an entry writes: its outputs are read, or refused with an error of this package that can be logged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import example, given, strategies as st
from pyarrow import parquet

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.runners import Exchange, Exchanges, ModuleEntry, ShellEntry

FLIGHTS = pa.table({"delay": [1, 2]})
HOSTILE = ["../secret", "/etc/passwd", "a\0b", "a" * 300, "a" * 5000, "\ud800", "\udcff", "", ".", "..", "a/b", "a\nb", "link"]
NAMES = st.one_of(
    st.sampled_from(HOSTILE), st.text(), st.none(), st.booleans(), st.integers(), st.floats(), st.lists(st.text(), max_size=2),
    st.dictionaries(st.text(), st.integers(), max_size=2),
)  # fmt: skip
BYTES = st.one_of(
    st.sampled_from([name.encode("utf-8", "surrogatepass") for name in HOSTILE]), st.binary(min_size=1, max_size=60)
)


@contextmanager
def ended(entry: ModuleEntry | ShellEntry) -> Iterator[Exchange]:
    """The folder of an entry that has ended, with a table beside the folder that no entry may read."""
    with TemporaryDirectory() as root:
        parquet.write_table(FLIGHTS, Path(root, "secret.parquet"))
        with Exchanges(Path(root, "exchange")).begin("dag/run/task/-1", "attempt") as exchange:
            exchange.write_call(entry)
            yield exchange


def read_or_refused(exchange: Exchange) -> None:
    try:
        tables = [exchange.output(name).read_all() for name in exchange.result(0).outputs]
    except SnowpackError as refused:
        message = str(refused)
    else:
        message = ""
        assert all(table.equals(FLIGHTS) for table in tables)
    assert len(message.encode()) < 3000, "it can be logged"


@given(NAMES, st.one_of(NAMES, st.lists(NAMES, max_size=3)))
@example("table-0", ["table-0"])
@example("link", ["link"])
def test_any_name_in_the_result_of_a_function(name: Any, names: Any) -> None:
    with ended(ModuleEntry("acme:f")) as exchange:
        outputs = exchange.folder / "outputs"
        with pa.ipc.new_stream(outputs / "table-0.arrow", FLIGHTS.schema) as stream:
            stream.write_table(FLIGHTS)
        (outputs / "link.arrow").symlink_to("/etc/passwd")
        value = {"$snowpack": "output", "name": name}
        (exchange.folder / "result.json").write_text(json.dumps({"value": value, "outputs": names}))
        read_or_refused(exchange)


@given(BYTES, st.sampled_from([b"", b".parquet"]), st.booleans())
@example(b"\xff", b".parquet", False)
def test_any_name_of_a_file_of_a_command(name: bytes, suffix: bytes, is_link: bool) -> None:
    with ended(ShellEntry(("true",), outputs=("scored",))) as exchange:
        folder = exchange.folder / "outputs" / "scored"
        folder.mkdir()
        path = os.path.join(os.fsencode(folder), name.replace(b"/", b"_") + suffix)
        try:
            os.symlink(b"../../../../secret.parquet", path) if is_link else open(path, "xb").close()
        except (OSError, ValueError):
            return  # this system has no such name
        if not is_link:
            parquet.write_table(FLIGHTS, exchange.folder / "whole.parquet")
            os.replace(exchange.folder / "whole.parquet", path)
        read_or_refused(exchange)
