"""Problems of policies, and the errors for unusable ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Place = tuple[str | int, ...]

SHOWN_FAULTS = 20


class Problem(StrEnum):
    """The kind of a problem."""

    FILE = "file"
    UNMATCHED_PATTERN = "unmatched_pattern"
    UNUSED_RULE = "unused_rule"
    CONTRADICTION = "contradiction"
    PROPERTY = "property"
    PREDICATE = "predicate"
    UNREADABLE_TABLE = "unreadable_table"


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """One problem.

    :param where: the file and line of a rule, or the name of a table.
    :param message: what is wrong, and how to fix it.
    """

    problem: Problem
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def fault(file: str, line: int, message: str) -> PolicyFinding:
    """Return a problem that makes a file unusable.

    :param file: its name, without folders.
    :param line: from 1; 0 for the whole file.
    """
    return PolicyFinding(Problem.FILE, f"{file}:{line}" if line else file, message)


@dataclass(frozen=True, slots=True)
class PolicySource:
    """A file with policies, or a part of it.

    :param file: its name, without folders.
    :param lines: from 1, by place, such as ``("rules", 0, "cadence")``; a place without a line has that of its parent.
    :param faults: the problems of the file.
    :param part: the place of the part.
    """

    file: str
    lines: Mapping[Place, int]
    faults: list[PolicyFinding] = field(default_factory=list)
    part: Place = ()

    def below(self, *place: str | int) -> PolicySource:
        """Return a part of this part."""
        return replace(self, part=(*self.part, *place))

    @property
    def line(self) -> int:
        """The line where the part begins."""
        return next(self.lines[self.part[:end]] for end in range(len(self.part), -1, -1) if self.part[:end] in self.lines)

    def refuse(self, message: str) -> None:
        """Record why the part cannot be used."""
        self.faults.append(fault(self.file, self.line, message))


class InvalidPolicies(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid policies."""

    def __init__(self, faults: Sequence[PolicyFinding]) -> None:
        self.faults = tuple(faults)
        lines = [str(fault) for fault in self.faults[:SHOWN_FAULTS]]
        if len(self.faults) > SHOWN_FAULTS:
            lines.append(f"and {len(self.faults) - SHOWN_FAULTS} more")
        super().__init__("\n".join((f"The policies have {plural(len(self.faults), 'problem')}:", *lines)))


class PoliciesNotFound(SnowpackError, kind=Kind.MISCONFIGURED):
    """Policies file not found."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"The policies file {path} cannot be read: {reason}. Create it, or correct its path.")
