"""Prepared statements mean the same on both databases, whatever they run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.prepared import FEW, PreparedStatement

PLACES = sa.Table("places", sa.MetaData(), sa.Column("code", sa.Text, primary_key=True), sa.Column("visits", sa.Integer))
ADD = PreparedStatement(sa.insert(PLACES))
VISIT = PreparedStatement(sa.update(PLACES).where(PLACES.c.code == sa.bindparam("b_code")).values(visits=PLACES.c.visits + 10))
KEEP = PreparedStatement(
    {
        dialect: insert(PLACES)
        .values(code=sa.bindparam("b_code"), visits=7)
        .on_conflict_do_nothing()
        .returning(PLACES.c.code, PLACES.c.visits)
        for dialect, insert in {"postgresql": postgresql.insert, "sqlite": sqlite.insert}.items()
    }
)


@pytest.fixture
def places(store_url: str) -> Iterator[Store]:
    """A store with a table of these."""
    with Store(open_engine(store_url)) as store:
        store.transact(PLACES.create)
        yield store


def visits(store: Store) -> dict[str, int]:
    return store.read(lambda conn: {row.code: row.visits for row in conn.execute(sa.select(PLACES))})


def test_constants_of_a_statement_are_its_own_and_values_are_the_callers(places: Store) -> None:
    row = places.transact(lambda conn: KEEP.first(conn, {"b_code": "ZRH"}))
    assert (row.code, row.visits) == ("ZRH", 7)
    assert places.transact(lambda conn: KEEP.first(conn, {"b_code": "ZRH"})) is None


def test_it_tells_how_many_rows_it_wrote(places: Store) -> None:
    rows = [{"code": "ZRH", "visits": 1}, {"code": "GVA", "visits": None}]
    places.transact(lambda conn: ADD.each(conn, rows))
    assert places.transact(lambda conn: VISIT.count(conn, {"b_code": "ZRH"})) == 1
    assert places.transact(lambda conn: VISIT.count(conn, {"b_code": "BSL"})) == 0
    assert visits(places) == {"ZRH": 11, "GVA": None}


def test_few_rows_and_many_are_written_alike(places: Store) -> None:
    for number, rows in enumerate((1, FEW, FEW + 1, 300)):
        codes = [f"{number}-{row}" for row in range(rows)]
        places.transact(lambda conn, codes=codes: ADD.each(conn, [{"code": code, "visits": 1} for code in codes]))
        assert {code for code in visits(places) if code.startswith(f"{number}-")} == set(codes)


def test_what_the_database_refuses_is_undone_with_the_rest(places: Store) -> None:
    same = [{"code": "ZRH", "visits": 1}, {"code": "GVA", "visits": 2}, {"code": "GVA", "visits": 3}]
    with pytest.raises(IntegrityError):
        places.transact(lambda conn: ADD.each(conn, same))
    assert visits(places) == {}
