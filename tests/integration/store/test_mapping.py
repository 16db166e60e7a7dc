"""Rows as values, and the one statement that writes a row or changes it. On both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pytest
import sqlalchemy as sa

from airflow_snowpack.store import Store, row_mapper, upsert
from airflow_snowpack.store.opening import open_engine

flags = sa.Table(
    "flags",
    sa.MetaData(),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("colour", sa.Text, nullable=False),
    sa.Column("raised", sa.Integer, nullable=False),
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Flag:
    name: str
    colour: Colour
    times: int
    label: str


flag_from = row_mapper(Flag, {"colour": Colour}, times="raised", label=lambda row: f"{row.name} ({row.colour})")


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(open_engine(store_url)) as store:
        flags.create(store.engine)
        yield store


def row(name: str, colour: str = "red", raised: int = 0) -> dict[str, object]:
    return {"name": name, "colour": colour, "raised": raised}


def test_a_field_is_the_column_of_its_name_another_column_or_made_from_the_row(store: Store) -> None:
    store.execute(sa.insert(flags), row("a", "blue", 3))

    assert [flag_from(found) for found in store.all(sa.select(flags))] == [Flag("a", Colour.BLUE, 3, "a (blue)")]


def test_several_rows_are_written_in_one_transaction(store: Store) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        store.execute(sa.insert(flags), [row("a"), row("b"), row("a")])
    assert store.all(sa.select(flags)) == []

    store.execute(sa.insert(flags), [row("a"), row("b")])
    assert store.scalars(sa.select(flags.c.name).order_by(flags.c.name)) == ["a", "b"]


def test_an_upsert_replaces_the_named_columns_of_the_row_with_its_key(store: Store) -> None:
    store.execute(sa.insert(flags), [row("a", "red", 1), row("b", "red", 1)])

    store.execute(upsert(flags, ["raised"]), row("a", "blue", 2))
    store.execute(upsert(flags, ["raised"]), row("c", "blue", 2))

    found = store.all(sa.select(flags).order_by(flags.c.name))
    assert [tuple(each) for each in found] == [("a", "red", 2), ("b", "red", 1), ("c", "blue", 2)]


def test_an_upsert_with_a_condition_returns_no_row_when_the_row_that_is_there_does_not_meet_it(store: Store) -> None:
    lowered = upsert(flags, ["raised"], where=flags.c.raised > 0).returning(flags.c.name)

    assert store.scalar(lowered, row("a", raised=0)) == "a"
    assert store.first(lowered, row("a", raised=5)) is None
    assert store.scalar(sa.select(flags.c.raised)) == 0


def test_a_change_returns_the_number_of_rows_that_it_changed(store: Store) -> None:
    store.execute(sa.insert(flags), [row("a"), row("b")])

    assert store.execute(sa.update(flags).values(raised=1)) == 2
    assert store.execute(sa.delete(flags).where(flags.c.name == "c")) == 0
