"""A store has an id of its own, drawn once, by which a catalog tells its interim tables from those of others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.engine import open_engine


@pytest.fixture
def upgraded(store_url: str) -> str:
    with Store(open_engine(store_url)) as store:
        upgrade_schema(store)
    return store_url


def identity(url: str) -> str:
    with Store(open_engine(url)) as store:
        return store.identity


def test_all_who_open_a_store_at_once_agree_on_its_id(upgraded: str) -> None:
    with ThreadPoolExecutor(4) as processes:
        (drawn,) = set(processes.map(identity, [upgraded] * 8))

    assert len(drawn) == 32
    assert identity(upgraded) == drawn


def test_a_copy_that_loses_its_id_draws_another(upgraded: str) -> None:
    before = identity(upgraded)
    with open_engine(upgraded).begin() as conn:
        conn.execute(sa.text("DELETE FROM store_facts WHERE name = 'store_id'"))

    assert identity(upgraded) != before
