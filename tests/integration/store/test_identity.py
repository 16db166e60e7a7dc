"""A store has an id of its own, drawn once, by which a catalog tells its interim tables from those of others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine


def identity(url: str) -> str:
    with Store(open_engine(url)) as store:
        return store.identity


def test_all_who_open_a_store_at_once_agree_on_its_id(store_url: str) -> None:
    with ThreadPoolExecutor(4) as processes:
        (drawn,) = set(processes.map(identity, [store_url] * 8))

    assert len(drawn) == 32
    assert identity(store_url) == drawn


def test_a_copy_that_loses_its_id_draws_another(store_url: str) -> None:
    before = identity(store_url)
    with open_engine(store_url).begin() as conn:
        conn.execute(sa.text("DELETE FROM store_facts WHERE name = 'store_id'"))

    assert identity(store_url) != before
