"""The JSON Schema of the policies file and the reader of the file agree on what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from airflow_snowpack.maintenance.action import action_names
from airflow_snowpack.maintenance.options import option_names
from airflow_snowpack.maintenance.policies import InvalidPolicies, policies_schema
from airflow_snowpack.maintenance.policies.properties import known_properties
from airflow_snowpack.maintenance.policies.reading import read_rules

VALID = [
    "",
    "rules:\n",
    "default: {}\n",
    "default: {cadence: 12h, deadline: null, max_rewrite_bytes: 10 GiB}",
    "rules: [{tables: '**', cadence: PT6H, deadline: P7D, max_rewrite_bytes: 1000}]",
    "rules: [{tables: [a.*, b.page_*, '**.x', a.b.c, '*.*', a.*x*y], exclude: a.tmp_*, enabled: false}]",
    "rules: [{tables: a.*, exclude: [], skip: migration, frozen_until: '2026-12-27T00:00:00+01:00'}]",
    "rules: [{tables: a.*, quiet: 08:00-20:00 Europe/Berlin}, {tables: b.*, quiet: ['22:00 - 06:00', 12:00-13:00 UTC]}]",
    "rules: [{tables: a.*, actions: {expire_snapshots: {enabled: true, options: {max_age: 10d, retain_last: 2}}}}]",
    "rules: [{tables: a.*, actions: {rewrite_data_files: {where: day > 3, thresholds: {small_files: 5}, cadence: null}}}]",
    "rules: [{tables: a.*, actions: {rewrite_data_files: {where: null, options: {strategy: sort, sort_order: a DESC}}}}]",
    "rules: [{tables: a.*, actions: {rewrite_data_files: {options: {delete_ratio_threshold: 0.5, zorder_columns: [a, b.c]}}}}]",
    "rules: [{tables: a.*, actions: {remove_orphan_files: {options: {equal_schemes: {s3a: s3}, older_than: 7d}}}}]",
    "rules: [{tables: a.*, actions: {rewrite_manifests: {options: {spec_id: null, sort_by: a}}}}]",
]
INVALID = [
    "[]",
    "rule: []",
    "rules: {}",
    "rules: [a.*]",
    "rules: [{cadence: 1h}]",
    "default: {tables: a.*}",
    *(f"rules: [{{tables: {name}}}]" for name in ("a", "'*'", "a..b", ".a", "a.", "a.**b", "[]", "7", "a b.c", "'a.b?'")),
    *(f"rules: [{{tables: a.*, {key}}}]" for key in ("cadance: 1h", "cadence: 5", "cadence: 1 year", "cadence: P")),
    *(f"rules: [{{tables: a.*, {key}}}]" for key in ("cadence: ''", "frozen_until: soon", "exclude: 7")),
    *(f"rules: [{{tables: a.*, {key}}}]" for key in ("enabled: maybe", "skip: null", "skip: ''", "quiet: 8-20", "quiet: null")),
    *(f"rules: [{{tables: a.*, {key}}}]" for key in ("max_rewrite_bytes: 0", "max_rewrite_bytes: true")),
    *(f"rules: [{{tables: a.*, actions: {value}}}]" for value in ("[]", "{expire_snapshot: {}}", "{rewrite_manifests: true}")),
    *(
        f"rules: [{{tables: a.*, actions: {{rewrite_data_files: {value}}}}}]"
        for value in (
            "{where: ''}", "{enabled: null}", "{threshold: {}}", "{thresholds: {small_file: 1}}",
            "{thresholds: {small_files: 0}}",
            "{options: {max_ag: 1}}", "{options: {where: a}}", "{options: {strategy: pack}}", "{options: {min_input_files: 0}}",
            "{options: {delete_ratio_threshold: 2}}", "{options: {rewrite_all: 1}}", "{options: {zorder_columns: [a b]}}",
        )
    ),
    "rules: [{tables: a.*, actions: {expire_snapshots: {where: a > 1}}}]",
    "rules: [{tables: a.*, actions: {remove_orphan_files: {options: {restore: all}}}}]",
]  # fmt: skip


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    return Draft202012Validator(policies_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)


def is_allowed(schema: Draft202012Validator, text: str) -> bool:
    return bool(schema.is_valid(yaml.safe_load(text)))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(policies_schema())


@pytest.mark.parametrize("text", VALID)
def test_both_allow_a_valid_file(schema: Draft202012Validator, text: str) -> None:
    read_rules(text, "policies.yaml")
    assert is_allowed(schema, text)


@pytest.mark.parametrize("text", INVALID)
def test_both_refuse_an_invalid_file(schema: Draft202012Validator, text: str) -> None:
    with pytest.raises(InvalidPolicies):
        read_rules(text, "policies.yaml")
    assert not is_allowed(schema, text)


OF_REQUEST = {"snapshot_id", "removal_id", "snapshot_ids", "restore", "restore_files"}
"""What names a list, snapshots or files of one moment. Nightly, it would undo or repeat what a person decided once."""


def test_the_schema_has_each_option_of_each_action_that_is_no_matter_of_one_request() -> None:
    definitions: dict[str, Any] = policies_schema()["$defs"]
    assert list(definitions) == list(action_names())
    for action, definition in definitions.items():
        keys = definition["properties"]
        known = {*keys["options"]["properties"], *({"where"} & keys.keys())}
        assert known == set(option_names(action)) - OF_REQUEST
        assert all("anyOf" in option for option in keys["options"]["properties"].values()), "each has a type, or null"
    assert {name for name in known_properties() if name.rpartition(".")[2] in OF_REQUEST} == set()
