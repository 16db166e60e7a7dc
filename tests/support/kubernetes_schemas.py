"""What KEDA and Kubernetes accept, without a cluster.

``keda_schemas.json`` has the schemas of KEDA's custom resource definitions (commit 8b4f083ca, after 2.20.1) without their
descriptions. That of a ScaledJob contains Kubernetes' own schema of a Job and its pod.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = json.loads(Path(__file__).with_name("keda_schemas.json").read_text())
JOB_SCHEMA = SCHEMAS["ScaledJob"]["properties"]["spec"]["properties"]["jobTargetRef"]["properties"]


def strict(schema: Any) -> Any:
    """The schema as the API server applies it with ``--validate=strict``: a field that it does not name is an error."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: strict(part) for name, part in schema.items()}
    if "properties" in inner and "additionalProperties" not in inner and inner.get("type") == "object":
        # The schemas leave the metadata of objects open; Kubernetes has its own rules for them.
        inner["additionalProperties"] = False
    return inner


def check(document: Any, schema: Any) -> None:
    Draft202012Validator(strict(schema)).validate(document)
