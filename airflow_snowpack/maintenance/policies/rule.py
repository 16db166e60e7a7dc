"""One rule: patterns of table names, and the values that hold for the tables that they match."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from airflow_snowpack.maintenance.policies.model import QuietWindow


class Rule:
    """Values for the tables that a pattern matches. A value that is ``None`` is left to less specific rules.

    :param tables: one pattern or several, such as ``analytics.*``; ``*`` matches within a level, ``**`` any number of levels.
    :param exclude: patterns of tables that the rule leaves alone.
    :param enabled: whether the tables are maintained; a table property or a more specific rule can change it.
    :param skip: why the tables are never maintained; no other rule and no property can change it.
    :param frozen_until: no maintenance starts before this moment (aware, or ISO 8601 with an offset).
    :param quiet: windows, or texts such as ``"08:00-20:00 Europe/Berlin"``, in which no maintenance starts.
    :param max_rewrite_bytes: one plan rewrites at most so much; a number of bytes, or text such as ``"10 GiB"``.
    :param cadence: every action runs at most this often, such as ``"6h"``.
    :param deadline: every action runs at least this often while it has something to do.
    :param actions: by name of the action: ``enabled``, ``cadence``, ``deadline``, ``where``, ``thresholds`` and ``options``.
    :raises InvalidPolicies: a value cannot be used.
    """

    def __init__(
        self,
        tables: str | Sequence[str],
        *,
        exclude: str | Sequence[str] = (),
        enabled: bool | None = None,
        skip: str | None = None,
        frozen_until: datetime | str | None = None,
        quiet: Sequence[QuietWindow | str] | QuietWindow | str | None = None,
        max_rewrite_bytes: int | str | None = None,
        cadence: timedelta | str | None = None,
        deadline: timedelta | str | None = None,
        actions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        caller = sys._getframe(1)
        self.file, self.line = Path(caller.f_code.co_filename).name, caller.f_lineno
        raise NotImplementedError
