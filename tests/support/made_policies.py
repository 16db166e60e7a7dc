"""Policies of tests, from rules or from a file, and the policy that a table gets by them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.maintenance.policies import Policies, Rule, TablePolicy

PAGE_VIEWS = TableName("lake", "analytics", "page_views")


def table(dotted: str) -> TableName:
    return TableName.parse(dotted, catalog="lake")


def policy(*rules: Rule, of: str = "analytics.page_views", **properties: str) -> TablePolicy:
    """The policy of a table whose properties are written with ``__`` for a dot."""
    return Policies(rules).of(table(of), {name.replace("__", "."): text for name, text in properties.items()})


def loaded(folder: Path, text: str) -> Policies:
    file = folder / "policies.yaml"
    file.write_text(dedent(text))
    return Policies.load(file)
