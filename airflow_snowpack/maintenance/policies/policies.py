"""The rules of an installation, merged for one table at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.policies.model import TablePolicy
    from airflow_snowpack.maintenance.policies.rule import Rule


class Policies:
    """Rules in the order of their file; of two rules that are equally specific, the later one wins.

    :param rules: the default of the installation is a rule with the pattern ``**``.
    """

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)

    @classmethod
    def load(cls, path: Path | str) -> Policies:
        """Read ``policies.yaml``, or the object ``policies`` of a Python file.

        :raises InvalidPolicies: the file is missing or has a problem; the message names the line of each.
        """
        raise NotImplementedError

    @classmethod
    def default(cls) -> Policies:
        """Return the policies of an installation without a file."""
        return cls()

    def of(self, table: TableName, properties: Mapping[str, str]) -> TablePolicy:
        """Merge rules and properties for a table; never raises: a property that cannot be used is one of its ``problems``.

        :param properties: the table's, of which ``snowpack.*`` and ``compaction_skip`` count.
        """
        raise NotImplementedError

    def excludes(self, table: TableName) -> bool:
        """Whether the rules alone exclude the table from maintenance, so that its properties need not be read."""
        raise NotImplementedError
