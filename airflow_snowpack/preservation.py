"""Whether a run's interim tables are kept: a word that the runs of ``scheduling/`` and the tables of ``interim/`` share.

    >>> parse_preservation("FULL", "preservation")
    <Preservation.FULL: 'FULL'>

A DAG run carries its preservation in its conf, under :data:`RUN_KEY`:

    {"snowpack_run": {"name": "features", "preservation": "FULL", "explicit": false}}

The invariant: a missing value is ``None`` and the next level applies; only an unknown word is an error.
"""

from __future__ import annotations

from enum import StrEnum

from airflow_snowpack.errors import Kind, SnowpackError

RUN_KEY = "snowpack_run"
"""Where a DAG run's conf names its registered run and the preservation of its interim tables."""


class Preservation(StrEnum):
    """What becomes of the interim tables of a run."""

    NONE = "NONE"
    """A table is dropped when no task needs it any more."""

    FULL = "FULL"
    """A table is kept until its time to live has elapsed or a user drops it."""


class InvalidPreservation(SnowpackError, kind=Kind.INVALID):
    """Invalid preservation mode.

    :ivar where: the argument, variable or field that has it.
    """

    def __init__(self, where: str, value: object) -> None:
        self.where = where
        self.value = value
        super().__init__(
            f"{where} = {value!r:.200} is not usable: it must be {' or '.join(Preservation)}, or not be set at all, which lets "
            "the next level decide."
        )


def parse_preservation(value: object, where: str) -> Preservation | None:
    """Read the word, in any case; ``None`` stays ``None``.

    :param where: how an error calls the place that it comes from.
    :raises InvalidPreservation: it is another word.
    """
    if value is None:
        return None
    if isinstance(value, str) and value.upper() in tuple(Preservation):
        return Preservation(value.upper())
    raise InvalidPreservation(where, value)
