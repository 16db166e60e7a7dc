"""Every error of the package has a kind, and status, exit code and retry follow from it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_snowpack
from airflow_snowpack.api.problems import OTHER_STATUS, STATUS, status_of
from airflow_snowpack.builds.errors import BuildNotFound, ManifestDamaged, NothingPublished
from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.exit_code import CODES, code_of
from airflow_snowpack.iceberg.errors import TableNotFound
from airflow_snowpack.interim.errors import InterimTableNotFound, InterimTableNotStuck, UnwritableFrame
from airflow_snowpack.jobs.errors import KeyUsedBefore
from airflow_snowpack.store.errors import SchemaOutOfDate

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
RUNS_WHEN_IMPORTED = ("airflow_snowpack.store.migrations", "airflow_snowpack.__main__")


@pytest.fixture(scope="module")
def errors() -> list[type[SnowpackError]]:
    return error_classes()


def error_classes() -> list[type[SnowpackError]]:
    """Import every module of the package and return the error classes that they define."""
    for module in pkgutil.walk_packages(airflow_snowpack.__path__, "airflow_snowpack."):
        if not module.name.startswith(RUNS_WHEN_IMPORTED):
            importlib.import_module(module.name)
    return [cls for cls in _below(SnowpackError) if cls.__module__.startswith("airflow_snowpack.")]


def _below(cls: type[SnowpackError]) -> Iterator[type[SnowpackError]]:
    for child in sorted(cls.__subclasses__(), key=lambda child: child.__name__):
        yield child
        yield from _below(child)


def test_a_class_without_a_kind_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="kind"):
        type("Vague", (SnowpackError,), {})


def test_each_error_names_its_kind_and_a_title(errors: list[type[SnowpackError]]) -> None:
    assert len(errors) > 100
    assert [cls for cls in errors if not isinstance(vars(cls).get("kind"), Kind)] == []
    titles = [(cls.__doc__ or "").splitlines()[0] for cls in errors]
    assert [title for title in titles if not (title.endswith(".") and title.count(".") == 1 and len(title) < 80)] == []


def test_no_two_errors_share_a_name(errors: list[type[SnowpackError]]) -> None:
    names = [cls.__name__ for cls in errors]
    assert len(set(names)) == len(names)


def test_each_kind_has_a_status_an_exit_code_and_a_retry() -> None:
    from airflow_snowpack.operators.base import RETRIED

    assert set(STATUS) == set(CODES) == set(RETRIED) == set(Kind)


def test_what_was_answered_differently_by_api_cli_and_tasks_follows_from_one_kind() -> None:
    from airflow_snowpack.operators.base import is_retried

    answers = {
        type(error).__name__: (status_of(error), int(code_of(error)), is_retried(error))
        for error in (
            KeyUsedBefore("key", "job"),
            InterimTableNotStuck("t", "it is active", "Drop it"),
            SchemaOutOfDate("db", None, "0002"),
            UnwritableFrame("a column of nulls"),
            NothingPublished("s3://lake/flights"),
            ManifestDamaged("manifest.json", "it is empty"),
        )
    }
    assert answers == {
        "KeyUsedBefore": (422, 2, False),
        "InterimTableNotStuck": (409, 5, True),
        "SchemaOutOfDate": (503, 6, True),
        "UnwritableFrame": (422, 2, False),
        "NothingPublished": (404, 4, True),
        "ManifestDamaged": (409, 1, True),
    }


def test_an_error_from_outside_the_package_names_a_kind_and_needs_nothing_else() -> None:
    from airflow_snowpack.operators.base import is_retried

    class QuotaExceeded(SnowpackError, kind=Kind.CONFLICT):
        """The quota is exceeded."""

    error = QuotaExceeded("The quota of 10 tables is exceeded. Try again tomorrow.")
    assert (status_of(error), int(code_of(error)), is_retried(error)) == (409, 5, True)


def test_a_task_is_retried_for_what_another_task_may_still_create() -> None:
    from airflow_snowpack.operators.base import is_retried

    assert is_retried(TableNotFound("demo.flights", "lake"))
    assert is_retried(InterimTableNotFound("cleaned"))
    assert not is_retried(BuildNotFound("flights", "r1"))


def test_the_page_lists_every_error_with_what_follows_from_it(errors: list[type[SnowpackError]]) -> None:
    assert _page(errors) == PAGE.read_text(), "run: python tests/unit/test_errors.py"


def _page(errors: list[type[SnowpackError]]) -> str:
    from airflow_snowpack.operators.base import RETRIED

    lines = [
        "# Errors",
        "",
        "Every error of the package is a `SnowpackError`. Its kind decides the HTTP status, the exit code of a command, and",
        "whether Airflow retries the task. The member `error` of the API is the class in snake case, such as `table_locked`;",
        "that of `DrainModeOn` is `drain_mode`, and that of `RequestTooSlow` is `too_slow`.",
        "",
        "| kind | status | exit code | retried | meaning |",
        "|---|---|---|---|---|",
    ]
    for kind in Kind:
        retried = "yes" if RETRIED[kind] else "no"
        lines.append(f"| `{kind.name}` | {STATUS[kind]} | {int(CODES[kind])} | {retried} | {kind.value} |")
    other = ", ".join(f"`{cls.__name__}` {status}" for cls, status in OTHER_STATUS.items())
    lines += [
        "",
        f"Other statuses: {other}.",
        "`DrainModeOn` and `StoreTooSlow` end a command with 5. A task is also retried after `TableNotFound`,",
        "`InterimTableNotFound` and `NothingPublished`: another task may create what is missing.",
    ]
    lines += ["", "## Errors by kind", "", "| kind | errors |", "|---|---|"]
    for kind in Kind:
        names = ", ".join(sorted(f"`{cls.__name__}`" for cls in errors if cls.kind is kind))
        lines.append(f"| `{kind.name}` | {names} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(_page(error_classes()))
