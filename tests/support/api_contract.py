"""The names that clients of the REST API depend on: ``python tests/support/api_contract.py`` writes them to the stored contract.

Descriptions are not part of it, so that they can be improved freely.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STORED = Path(__file__).parents[1] / "unit" / "api" / "contract.json"


def contract_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the operations with their parameters and status codes, and the fields of each schema."""
    operations = {
        f"{method.upper()} {path}": {
            "id": operation["operationId"],
            "parameters": sorted(parameter["name"] for parameter in operation.get("parameters", ())),
            "responses": sorted(operation["responses"]),
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    schemas = {name: sorted(schema.get("properties", schema.get("enum", ()))) for name, schema in _schemas(document)}
    return {"operations": operations, "schemas": schemas}


def _schemas(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(document["components"]["schemas"].items())


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the app."""
    from airflow_snowpack.api import Services, TokenAuth, build_app
    from airflow_snowpack.api.openapi import document_of

    def not_open() -> Services:
        raise AssertionError("the document needs no services")

    return document_of(build_app(not_open, TokenAuth("x")), "/snowpack")


def written(contract: dict[str, dict[str, Any]]) -> str:
    """Return the contract as JSON with a line for each operation and each schema, so that a change of one is a line."""
    sections = (
        f'"{name}": {{\n' + ",\n".join(f" {json.dumps(key)}: {json.dumps(entries[key])}" for key in sorted(entries)) + "\n}"
        for name, entries in contract.items()
    )
    return "{" + ",\n".join(sections) + "}\n"


if __name__ == "__main__":
    STORED.write_text(written(contract_of(document())))
