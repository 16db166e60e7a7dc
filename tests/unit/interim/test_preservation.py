"""Preservation: which of the four levels decides."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.preservation import (
    DEFAULT_VARIABLE,
    InvalidPreservation,
    Preservation,
    resolve_preservation,
)

FULL, NONE = Preservation.FULL, Preservation.NONE


def of_run(said: str | None, **more: Any) -> dict[str, Any]:
    return {"snowpack_run": {"name": "features", "preservation": said, **more}}


@pytest.mark.parametrize(
    ("argument", "conf", "environ", "wanted"),
    [
        ("FULL", of_run("NONE", explicit=True), {DEFAULT_VARIABLE: "NONE"}, FULL),
        ("NONE", of_run("FULL", explicit=False), {DEFAULT_VARIABLE: "FULL"}, NONE),
        (None, of_run("FULL", explicit=True), {DEFAULT_VARIABLE: "NONE"}, FULL),
        (None, of_run("NONE", explicit=True), {DEFAULT_VARIABLE: "FULL"}, NONE),
        (None, of_run("FULL", explicit=False), {}, FULL),
        (None, of_run(None, explicit=False), {DEFAULT_VARIABLE: "FULL"}, FULL),
        (None, {"table": "demo.flights"}, {DEFAULT_VARIABLE: "FULL"}, FULL),
        (None, None, {DEFAULT_VARIABLE: "NONE"}, NONE),
        (None, None, {DEFAULT_VARIABLE: ""}, NONE),
        (None, {}, {}, NONE),
        (None, None, {DEFAULT_VARIABLE: "full"}, FULL),
        (None, None, {DEFAULT_VARIABLE: "None"}, NONE),
        (None, of_run("Full"), {}, FULL),
        ("none", None, {DEFAULT_VARIABLE: "FULL"}, NONE),
    ],
)
def test_the_first_level_with_a_value_decides(
    argument: str | None, conf: dict[str, Any] | None, environ: dict[str, str], wanted: Preservation
) -> None:
    assert resolve_preservation(argument, conf, environ) is wanted


def test_junk_in_the_variable_is_an_error_with_its_name_and_what_is_allowed() -> None:
    with pytest.raises(InvalidPreservation, match=r"SNOWPACK_DEFAULT_PRESERVATION_MODE = 'sometimes' .* NONE or FULL") as caught:
        resolve_preservation(None, {}, {DEFAULT_VARIABLE: "sometimes"})
    assert isinstance(caught.value, SnowpackError)


def test_junk_in_an_argument_or_in_the_runs_conf_names_its_place() -> None:
    with pytest.raises(InvalidPreservation, match=r"^preservation = 'all'"):
        resolve_preservation("all", {}, {})
    with pytest.raises(InvalidPreservation, match=r"dag_run\.conf\['snowpack_run'\]\['preservation'\] = True"):
        resolve_preservation(None, {"snowpack_run": {"preservation": True}}, {})
    with pytest.raises(InvalidPreservation, match=r"dag_run\.conf\['snowpack_run'\] = \['FULL'\]"):
        resolve_preservation(None, {"snowpack_run": ["FULL"]}, {})
