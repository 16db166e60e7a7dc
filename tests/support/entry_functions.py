"""Functions that entries call, as a package of a user's has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def scored(numbers: pa.Table, factor: str) -> dict[str, Any]:
    """Multiply, and count."""
    import pyarrow as pa

    made = [number * int(factor) for number in numbers["number"].to_pylist()]
    return {"scored": pa.table({"number": made}), "count": len(made)}
