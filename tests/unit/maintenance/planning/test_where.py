"""Texts in generated predicates, as the reader of predicates reads them. test_conditions_on_spark.py compares that with Spark."""

from __future__ import annotations

import pytest

from airflow_snowpack.iceberg.health import SpecField
from airflow_snowpack.maintenance.condition_tokens import TokenReader
from airflow_snowpack.maintenance.planning.where import where_of


class Literal(TokenReader):
    def text(self) -> str:
        return self._text()


@pytest.mark.parametrize("following", ["", "0", "012", "177", "n", "u0041", "U00000041", "{x}", "'", "\\"])
@pytest.mark.parametrize("special", "\0\b\n\r\t\x1a\\'\"$%_{")
def test_a_text_stays_the_same_whatever_follows_a_character_that_has_an_escape(special: str, following: str) -> None:
    """A NUL before digits, written as a backslash and 0, would be the octal number of another character."""
    text = f"x{special}{following}"

    where = where_of([SpecField("value", "string", "identity", "value")], [(text,)], catalog="lake")

    assert Literal(where.removeprefix("`value` = ")).text() == text
