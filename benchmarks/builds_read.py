"""Look-ups in a published build: 1,000,000 rows in 8 SQLite shards on the local disk, warm.

`get` has a limit of its own, and `multi_get` one beside as many `get`s, both for keys of one shard. Keys of all eight are asked
for as well: their pages are more than a processor's cache holds, so there is no limit for what that takes. For comparison the
same keys are asked of one SQLite file by hand, with the standard library alone: what a reader adds is routing, the pool, and
following the pointer.
"""

from __future__ import annotations

import pickle
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.json_format import checksum_of, to_json
from airflow_snowpack.builds.model import Current, Manifest, ShardFormat, Sharding, hash_shard
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.sharding import Placing, key_type_of
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt
from benchmarks.results import Finding, Results

ROWS, SHARDS, ASKED, TURNS = 1_000_000, 8, 1_000, 20
RUN = "20260101T000000Z"
AT = datetime(2026, 1, 1, tzinfo=UTC)
MOST_GET_US = 100
LEAST_MULTI_GET = 5


def run(results: Results, *, rounds: int) -> None:
    for key in ("user_id", "user"):
        with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder:
            table = _features()
            _publish(Storage(folder), table, key)
            with SnapshotReader(folder) as reader:
                _measure(results, reader, table[key].to_pylist(), by_hand=_by_hand(Path(folder), key), key=key, rounds=rounds)


def _measure(
    results: Results, reader: SnapshotReader, keys: list[Any], *, by_hand: Callable[[Any], object], key: str, rounds: int
) -> None:
    key_type = reader.manifest.key_type
    of_one_shard = [each for each in keys if hash_shard(each, key_type, SHARDS) == 0]
    samples = [random.Random(seed).sample(of_one_shard, ASKED) for seed in range(rounds * TURNS)]
    for sample in samples:  # warm: every page of the files that will be asked for was read once
        assert len(reader.multi_get(sample)) == ASKED
        _each(by_hand, sample)
    single = statistics.median(span for sample in samples for span in _each(reader.get, sample)) * 1e6
    hand = statistics.median(span for sample in samples for span in _each(by_hand, sample)) * 1e6
    pairs = _gets_and_multi_get(reader, samples)
    spread = [random.Random(seed).sample(keys, ASKED) for seed in range(len(samples))]
    for sample in spread:
        reader.multi_get(sample)
    of_all = _gets_and_multi_get(reader, spread)
    kind = key_type.value
    says = f"{single:.1f} µs; by hand in SQLite, one file: {hand:.1f} µs"
    results.find(Finding(f"get of a warm local SQLite shard, median µs, {kind} keys", single, at_most=MOST_GET_US, says=says))
    gets, multi = map(min, zip(*pairs, strict=True))
    says = (
        f"least of {len(pairs)} turns, {gets:.2f} ms : {multi:.2f} ms of CPU; medians {_times(pairs, statistics.median):.1f}; "
        f"keys of all {SHARDS} shards {_times(of_all, min):.1f}, medians {_times(of_all, statistics.median):.1f}"
    )
    results.find(Finding(f"1,000 gets / multi_get of 1,000 keys, {kind} keys", gets / multi, at_least=LEAST_MULTI_GET, says=says))


def _gets_and_multi_get(reader: SnapshotReader, samples: list[list[Any]]) -> list[tuple[float, float]]:
    """Milliseconds of CPU, in turns.

    Neighbours on the machine take their part of the processor's caches, at some moments more than at others, and one long
    question feels it more than each of many short ones. So the least that each takes is compared, as ``timeit`` would have it.
    """
    return [(_cpu(lambda keys: [reader.get(key) for key in keys], sample), _cpu(reader.multi_get, sample)) for sample in samples]


def _times(pairs: list[tuple[float, float]], of: Callable[[Iterable[float]], float]) -> float:
    gets, multi = map(of, zip(*pairs, strict=True))
    return gets / multi


def _each(ask: Callable[[Any], object], keys: list[Any]) -> list[float]:
    spans = []
    for key in keys:
        begin = time.perf_counter()
        ask(key)
        spans.append(time.perf_counter() - begin)
    return spans


def _cpu(ask: Callable[[list[Any]], object], sample: list[Any]) -> float:
    keys = pickle.loads(pickle.dumps(sample))
    begin = time.thread_time()
    ask(keys)
    return (time.thread_time() - begin) * 1e3


def _features() -> pa.Table:
    ids = list(range(0, ROWS * 7, 7))
    return pa.table(
        {
            "user_id": ids,
            "user": [f"user-{number:09d}" for number in ids],
            "orders_30d": [number % 41 for number in ids],
            "spent_30d": [number / 3 for number in ids],
            "segment": [("gold", "silver", "new")[number % 3] for number in ids],
        }
    )


def _publish(storage: Storage, table: pa.Table, key: str) -> None:
    sharding, key_type = Sharding.hash(SHARDS), key_type_of(key, table.schema.field(key).type)
    places = Placing(sharding, key_type).shards(table.column(key).combine_chunks())
    plan = ShardPlan(table.schema, key, ShardFormat.SQLITE)
    shards = tuple(
        write_attempt(
            storage, AttemptPlace(RUN, shard, 0, "0"), plan, table.filter(pc.equal(places, shard)).sort_by(key).to_batches()
        )
        for shard in range(SHARDS)
    )
    columns = tuple((field.name, str(field.type)) for field in table.schema)
    manifest = Manifest("features", RUN, AT, AT, key, key_type, sharding, ShardFormat.SQLITE, columns, shards)
    data = to_json(manifest)
    storage.write(layout.manifest(RUN, 1), data)
    storage.write(layout.CURRENT, to_json(Current("features", 1, RUN, layout.manifest(RUN, 1), checksum_of(data), AT)))


def _by_hand(root: Path, key: str) -> Callable[[Any], object]:
    """One file with all rows, and a statement."""
    connection = sqlite3.connect(root / "all.sqlite")
    for at, shard in enumerate(sorted(root.glob("data/**/shard.sqlite"))):
        connection.execute("ATTACH ? AS shard", (str(shard),))
        if at == 0:
            [made] = connection.execute("SELECT sql FROM shard.sqlite_master WHERE name = 'rows'").fetchone()
            connection.execute(made)
        connection.execute("INSERT INTO main.rows SELECT * FROM shard.rows")
        connection.commit()
        connection.execute("DETACH shard")
    names = [column[0] for column in connection.execute("SELECT * FROM rows LIMIT 0").description]

    def get(asked: Any) -> object:
        found = connection.execute(f"SELECT * FROM rows WHERE {key} = ?", (asked,)).fetchone()
        return None if found is None else dict(zip(names, found, strict=True))

    return get
