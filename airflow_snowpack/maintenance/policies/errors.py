"""Errors of policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_FAULTS = 20


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in the rules that cannot be used.

    :param file: the name of the file, without its folders.
    :param line: from 1; 0 when it concerns the whole file.
    """

    file: str
    line: int
    message: str

    @property
    def place(self) -> str:
        """The file, with the line where it is known."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class InvalidPolicies(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid policies."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        lines = [str(fault) for fault in self.faults[:SHOWN_FAULTS]]
        if len(self.faults) > SHOWN_FAULTS:
            lines.append(f"and {len(self.faults) - SHOWN_FAULTS} more")
        super().__init__("\n".join((f"The policies have {plural(len(self.faults), 'problem')}:", *lines)))


class PoliciesNotFound(SnowpackError, kind=Kind.MISCONFIGURED):
    """Policies file not found."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"The policies file {path} cannot be read: {reason}. Create it, or correct [snowpack] policies.")
