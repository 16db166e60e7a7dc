"""The two checks of `make check` that read text: the glossary, and the usages in docstrings."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import check_language
import check_usages
import pytest

from airflow_snowpack.recurring import Recurring


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(check_language, "REPOSITORY", tmp_path)
    return tmp_path / "page.md"


@pytest.mark.parametrize(
    "text", ["The worker tells the store.", "nothing is\nAsked for", "def job_told(): ...", "Say --yes", "his table"]
)
def test_a_word_that_the_glossary_replaces_is_found_with_its_line(page: Path, text: str) -> None:
    page.write_text(text)

    (found,) = check_language.findings(page)

    assert found.startswith(f"page.md:{text.count(chr(10)) + 1}: ")


def test_words_that_only_contain_a_banned_word_are_allowed(page: Path) -> None:
    page.write_text("A standalone cluster; the standard; an essay on this history")

    assert check_language.findings(page) == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("recurring.ended()", "has no ended"),
        ("Recurring()", "missing a required argument"),
        ("Recurring(log).failed(error)", "missing a required argument"),
        ("Recurring(log, pause=1)", "unexpected keyword argument"),
    ],
)
def test_a_usage_that_the_code_does_not_support_is_found(call: str, problem: str) -> None:
    (found,) = check_usages.findings(module(call))

    assert found.startswith("airflow_snowpack.made: ")
    assert problem in found


def test_a_usage_that_works_is_accepted() -> None:
    assert check_usages.findings(module("recurring.failed(error, 'heartbeat of %s', job)")) == []


def module(call: str) -> ModuleType:
    """Return a module of the package whose docstring has this call."""
    made = ModuleType("airflow_snowpack.made", f'"A usage."\n\n    recurring = Recurring(log)\n    {call}\n')
    made.Recurring = Recurring  # type: ignore[attr-defined]
    return made
