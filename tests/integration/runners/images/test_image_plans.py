"""With ten thousand images and as many waiting tasks and attempts on record, no statement about one of them walks over all."""

from __future__ import annotations

import sqlalchemy as sa
from made_images import ImageMaker
from query_plans import scans, sent_by

from airflow_snowpack.store import Actor, Store
from airflow_snowpack.store.tables.images import image_builds

MANY = 10_000
TABLES = ["image_builds", "image_waits", "image_attempts"]
COLUMNS = ", ".join(column.name for column in image_builds.columns if column.name != "key")
NUMBERS = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
FILL = (
    f"INSERT INTO image_builds (key, {COLUMNS}) {NUMBERS} SELECT 'many' || i, {COLUMNS} FROM n, image_builds WHERE key = :key",
    f"INSERT INTO image_waits (key, task, since) {NUMBERS} SELECT 'many' || (i / 10), 'task' || i, requested_at "
    "FROM n, image_builds WHERE key = :key",
    f"INSERT INTO image_attempts (attempt_id, key, number, holder, started_at, outcome) {NUMBERS} "
    "SELECT 'a' || i, 'many' || i, 1, 'task', requested_at, 'lost' FROM n, image_builds WHERE key = :key",
)


def filled(store: Store) -> str:
    """Fill the tables with copies of one image, which is being built; return its key."""
    key = ImageMaker(store).request(commit="f" * 40)
    for statement in FILL:
        store.execute(sa.text(statement), {"key": key})
    return key


def test_no_statement_about_an_image_walks_over_all_images(store: Store) -> None:
    known, maker = filled(store), ImageMaker(store)

    def lives() -> None:
        key = maker.request()
        attempt = maker.begin(key)
        maker.wait("flights/r1/score")
        assert maker.builds.states([key, known])
        assert maker.builds.keys_beginning(key[:12]) == [key]
        assert (maker.builds.get(key).waiting, len(maker.builds.waits(key))) == (1, 1)
        maker.fail(attempt)
        assert len(maker.builds.attempts(key)) == 1
        assert maker.builds.log(key)
        maker.builds.forget(key, actor=Actor("vera", "page"))
        maker.succeed(maker.begin(known))

    page = maker.builds.list(limit=50)
    sent = sent_by(store, lives) + sent_by(store, lambda: maker.builds.list(limit=50, cursor=page.next))
    assert scans(store, sent, TABLES) == []
    store.transact(lambda conn: conn.exec_driver_sql("ANALYZE"))
    assert scans(store, sent, TABLES) == [], "and with statistics"
