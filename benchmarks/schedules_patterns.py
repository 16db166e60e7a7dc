"""Events matched with patterns by one statement, as `bench_match.py` of the peers' harness does it: what matching costs there.

A tenth of the schedules name their tables by a pattern, in a namespace (``ns12.*``, ``ns12.fact_*``) or in all (``*.dim_7``). Our
schedules name whole tables, so that theirs is the harder question; ours also keeps the events with the jobs that they are for.
"""

from __future__ import annotations

import random

import psycopg

from benchmarks.postgres import Server

SCHEDULES = EVENTS = 10_000
TABLES = [f"ns{number % 200}.{'fact' if number % 3 else 'dim'}_{number}" for number in range(20_000)]

MAKE = """
CREATE TABLE watched (id integer PRIMARY KEY, pattern text NOT NULL, is_pattern boolean NOT NULL, namespace text);
CREATE INDEX ON watched (pattern) WHERE NOT is_pattern;
CREATE INDEX ON watched (namespace) WHERE is_pattern;
CREATE TABLE arrived (id integer PRIMARY KEY, name text NOT NULL, namespace text NOT NULL);
CREATE TABLE pairs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, schedule integer, event integer);
"""
MATCH = """
INSERT INTO pairs (schedule, event)
SELECT w.id, a.id FROM arrived a JOIN watched w ON NOT w.is_pattern AND w.pattern = a.name
UNION ALL
SELECT w.id, a.id FROM arrived a
JOIN watched w ON w.is_pattern AND (w.namespace = a.namespace OR w.namespace IS NULL) AND a.name LIKE w.pattern
"""


class PatternMatching:
    """The statement on a database of its own."""

    def __init__(self, server: Server) -> None:
        self._connection = psycopg.connect(
            server.fresh_database("bench_patterns", durable=False).replace("+psycopg", ""), autocommit=True
        )
        chance = random.Random(7)
        with self._connection.cursor() as cursor:
            cursor.execute(MAKE)
            cursor.executemany("INSERT INTO watched VALUES (%s, %s, %s, %s)", [_watched(n, chance) for n in range(SCHEDULES)])
            arrived = [chance.choice(TABLES) for _ in range(EVENTS)]
            cursor.executemany(
                "INSERT INTO arrived VALUES (%s, %s, %s)", [(n, name, name.split(".")[0]) for n, name in enumerate(arrived)]
            )
            cursor.execute("ANALYZE")

    def empty(self) -> None:
        self._connection.execute("TRUNCATE pairs")

    def match(self) -> None:
        assert self._connection.execute(MATCH).rowcount > EVENTS

    def close(self) -> None:
        self._connection.close()


def _watched(number: int, chance: random.Random) -> tuple[int, str, bool, str | None]:
    if chance.random() < 0.9:
        return number, chance.choice(TABLES), False, None
    namespace = f"ns{chance.randrange(200)}"
    everywhere = rf"%.dim\_{chance.randrange(len(TABLES))}"
    pattern, where = chance.choice([(f"{namespace}.%", namespace), (rf"{namespace}.fact\_%", namespace), (everywhere, None)])
    return number, pattern, True, where
