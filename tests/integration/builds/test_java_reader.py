"""A program in another language, written by the page about the format, reads what this package writes."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import format_vectors
import pyarrow as pa
import pytest
from snapshots import publish

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.model import Sharding
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.spark.java import find_java

Java = Callable[..., subprocess.CompletedProcess[str]]

DOCS = Path(__file__).parents[3] / "docs"
VECTORS = DOCS / "build-format-vectors.json"


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Runs the compiled reader."""
    home, classes = find_java().home, tmp_path_factory.mktemp("classes")
    compiler = home / "bin" / "javac"
    command = str(compiler) if compiler.exists() else shutil.which("javac")
    if command is None:
        pytest.skip("this machine's Java has no compiler")
    subprocess.run([command, "-Werror", "-d", classes, DOCS / "readers" / "SnapshotReader.java"], check=True)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        program = [home / "bin" / "java", "-Xmx256m", "-cp", classes, "SnapshotReader", *map(str, arguments)]
        return subprocess.run(program, capture_output=True, text=True, check=False)

    return run


def ask(java: Java, storage: Storage, keys: list[Any]) -> list[Any]:
    """What the program finds for each key."""
    ran = java("get", storage.url, *(json.dumps(_json(key)) for key in keys))
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def stored(storage: Storage, key_column: str, keys: list[Any]) -> list[Any]:
    """What SQLite has for each key, in whichever shard: the first of its rows."""
    found: dict[Any, Any] = {}
    for file in storage.objects("data/"):
        if file.path.endswith(".sqlite"):
            connection = sqlite3.connect(storage.local_path(file.path))
            connection.row_factory = sqlite3.Row
            for row in connection.execute(f'SELECT * FROM rows ORDER BY "{key_column}"'):
                found.setdefault(row[key_column], {name: _json(row[name]) for name in row.keys()})  # noqa: SIM118 - of a Row
            connection.close()
    return [found.get(key) for key in keys]


def _json(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def of_all_kinds(keys: list[Any], key_type: pa.DataType) -> pa.Table:
    count = len(keys)
    values = {
        "text": ["é" * (at % 5) for at in range(count)],
        "number": [at * 0.1 if at % 3 else None for at in range(count)],
        "large": [2**63 - 1 - at for at in range(count)],
        "flag": [at % 2 == 0 for at in range(count)],
        "at": [datetime(2026, 1, 1, 0, 0, at % 60, tzinfo=UTC) for at in range(count)],
        "price": [Decimal(at).scaleb(-2) for at in range(count)],
        "tags": [["a", None, "b"][: at % 4] for at in range(count)],
        "data": [bytes([at % 256]) * (at % 3) for at in range(count)],
    }
    table = pa.table({name: pa.array(column) for name, column in values.items()})
    return table.add_column(2, "key", pa.array(keys, key_type)).append_column(
        "float", pa.array([float("inf"), float("nan")] * (count // 2))
    )


def test_the_vectors_on_the_page_are_what_the_code_does() -> None:
    assert VECTORS.read_text() == format_vectors.text(), "python tests/support/format_vectors.py > docs/build-format-vectors.json"


def test_the_vectors_are_correct_in_java(java: Java, tmp_path: Path) -> None:
    ran = java("vectors", VECTORS)
    count = sum(len(json.loads(VECTORS.read_text())[name]) for name in ("keys", "checksums", "pointers", "shards", "records"))
    assert (ran.returncode, ran.stdout) == (0, f"{count} vectors hold\n"), ran.stderr
    wrong = tmp_path / "wrong.json"
    wrong.write_text(VECTORS.read_text().replace('"sound": false', '"sound": true', 1))
    assert java("vectors", wrong).returncode != 0


@pytest.mark.parametrize(
    ("keys", "key_type"),
    [
        ([7 * number - 9_000 for number in range(4_000)], pa.int64()),
        ([f"käy-{number}" for number in range(4_000)], pa.string()),
        ([Random(number).randbytes(number % 40 + 4) for number in range(4_000)], pa.binary()),
        ([number // 3 for number in range(4_000)], pa.int64()),
        ([f"käy-{number // 3}" for number in range(4_000)], pa.string()),
    ],
    ids=["integers", "strings", "bytes", "repeated integers", "repeated strings"],
)
def test_each_row_is_found_with_its_values(java: Java, tmp_path: Path, keys: list[Any], key_type: pa.DataType) -> None:
    storage = Storage(tmp_path)
    publish(storage, of_all_kinds(keys, key_type), key="key", sharding=Sharding.hash(3), batch_size=500)
    other = {pa.int64(): 10**12, pa.string(): "missing", pa.binary(): b"missing"}[key_type]
    asked = [*sorted(set(keys))[:3], *keys[::97], keys[-1], other]
    found = ask(java, storage, asked)
    assert found == stored(storage, "key", asked)
    assert (found[-1], None in found[:-1]) == (None, False)


def test_rows_longer_than_a_page_and_trees_of_several_levels_are_read(java: Java, tmp_path: Path) -> None:
    keys = [f"key-{number:06d}-" + "x" * 900 for number in range(1_200)]
    table = pa.table({"key": keys, "text": [chr(97 + number % 26) * (number * 31 % 40_000) for number in range(1_200)]})
    storage = Storage(tmp_path)
    publish(storage, table, key="key", sharding=Sharding.hash(1))
    asked = [*keys[::80], keys[-1]]
    assert ask(java, storage, asked) == table.take([*range(0, 1_200, 80), 1_199]).to_pylist()


def test_shards_by_category_are_found_by_their_smallest_and_greatest_keys(java: Java, tmp_path: Path) -> None:
    table = pa.table({"key": range(300), "country": [("de", "fr", "it")[number // 100] for number in range(300)]})
    storage = Storage(tmp_path)
    publish(storage, table, key="key", sharding=Sharding.categories("country", ("de", "fr", "it")))
    assert ask(java, storage, [0, 150, 299, 300]) == [*table.take([0, 150, 299]).to_pylist(), None]


def test_damage_is_noticed_and_a_damaged_manifest_leads_to_the_one_before(java: Java, tmp_path: Path) -> None:
    storage, table = Storage(tmp_path), pa.table({"key": [1, 2], "text": ["a", "b"]})
    first = publish(storage, table, key="key", run_id="r1", sharding=Sharding.hash(1))
    publish(storage, table.slice(0, 1), key="key", run_id="r2", sharding=Sharding.hash(1), after=first)
    assert ask(java, storage, [1, 2]) == [{"key": 1, "text": "a"}, None]
    storage.write(layout.manifest("r2", 1), storage.read(layout.manifest("r2", 1)).replace(b'"rows": 1', b'"rows": 9'))
    assert ask(java, storage, [2]) == [{"key": 2, "text": "b"}]
    with SnapshotReader(storage.url) as reader:
        assert reader.get(2) == {"key": 2, "text": "b"}, "as the reader in Python has it"
    damaged = next(found.path for found in storage.objects("data/r2/") if found.path.endswith(".sqlite"))
    third = publish(storage, table.slice(0, 1), key="key", run_id="r2", sharding=Sharding.hash(1), after=first)
    storage.write(damaged, storage.read(damaged)[:-1] + b"x")
    assert ask(java, storage, [2]) == [{"key": 2, "text": "b"}], "of the build before the damaged shard"
    fourth = publish(storage, table.slice(1, 1), key="key", run_id="r3", sharding=Sharding.hash(1), after=third)
    storage.delete(layout.manifest("r3", 1))
    assert ask(java, storage, [2]) == [{"key": 2, "text": "b"}], "two builds back"
    assert fourth.previous == third.manifest
    url = next(found.path for found in storage.objects("data/r1/") if found.path.endswith(".sqlite"))
    data = storage.read(url)
    storage.write(url, data[:-1] + bytes([data[-1] ^ 1]))
    ran = java("get", storage.url, 2)
    assert (ran.returncode != 0, "does not match the manifest" in ran.stderr) == (True, True)
