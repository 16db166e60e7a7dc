"""The kinds of triggers and constraints: the package's own, and those that other distributions add by entry points.

    CONSTRAINTS = Kinds(Constraint, "constraint", "airflow_snowpack.constraints", {"….period_constraints": ("delay",)})
    CONSTRAINTS.parse({"delay": "10m"})

Every parse of a DAG file pays for these imports, so a module is loaded when its kind is first used, and the entry points are read
only for a kind that is not the package's own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_snowpack.errors import error_text
from airflow_snowpack.scheduling.declared import Declared
from airflow_snowpack.scheduling.errors import InvalidSchedule

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger(__name__)

D = TypeVar("D", bound=Declared)


class Kinds(Generic[D]):
    """A registry of classes by kind.

    :param base: the parent of all classes.
    :param what: for messages: ``trigger`` or ``constraint``.
    :param group: the group of entry points, each named after the kind that it adds.
    :param own: the package's own kinds by module; the class of ``max_runs`` is ``MaxRuns``. Entry points cannot replace them.
    """

    def __init__(self, base: type[D], what: str, group: str, own: Mapping[str, Sequence[str]]) -> None:
        self.base = base
        self.what = what
        self.group = group
        self._own = {kind: module for module, kinds in own.items() for kind in kinds}
        self._loaded: dict[str, type[D]] = {}

    def __getitem__(self, kind: str) -> type[D]:
        """:raises InvalidSchedule: there is no such kind, or its entry point cannot be loaded."""
        if kind not in self._loaded:
            self._loaded[kind] = self._load(kind)
        return self._loaded[kind]

    def all(self) -> dict[str, type[D]]:
        """Load and return every kind, the package's own first; entry points that fail to load are logged and left out."""
        found = {}
        for kind in self._names():
            try:
                found[kind] = self[kind]
            except InvalidSchedule as problem:
                log.warning("kind_not_loaded: %s", problem)
        return found

    def parse(self, value: object) -> D:
        """Return a declaration unchanged, or read it from JSON: one kind with its fields.

        :raises InvalidSchedule: the value is not a declaration of a known kind; the error names the field.
        """
        if isinstance(value, self.base):
            if self[value.kind] is not type(value):
                raise InvalidSchedule(self.what, type(value).__name__, f"another class has the kind {value.kind!r}")
            return self.verified(value)
        if not isinstance(value, Mapping) or len(value) != 1:
            example = "{every: 4h}" if self.what == "trigger" else "{delay: 10m}"
            raise InvalidSchedule(self.what, value, f"it must be one {self.what}: a name with its fields, such as {example}")
        ((kind, fields),) = value.items()
        return self._verified(kind, lambda: self[kind].from_fields(fields))

    def verified(self, value: D, dag_id: str = "dag") -> D:
        """Return a declaration whose class works for this DAG.

        :raises InvalidSchedule: its class is from another package, and fails.
        """
        return self._verified(value.kind, lambda: value, dag_id)

    def _verified(self, kind: str, make: Callable[[], D], dag_id: str = "dag") -> D:
        """Make a declaration. A faulty class of another package makes only its schedule invalid."""
        if kind in self._own:
            return make()
        try:
            value = make()
            value.verify(dag_id)
        except (InvalidSchedule, RecursionError):
            raise
        except Exception as error:
            raise InvalidSchedule(self.what, kind, f"its class fails with {type(error).__name__}: {error_text(error)}") from error
        return value

    @property
    def _added(self) -> dict[str, EntryPoint]:
        from airflow_snowpack.entry_points import entry_points  # not needed to parse a DAG file

        return entry_points(self.group)

    def _load(self, kind: str) -> type[D]:
        if kind in self._own:
            found: type[D] = getattr(import_module(self._own[kind]), kind.title().replace("_", ""))
            return found
        if kind not in self._added:
            raise InvalidSchedule(self.what, kind, f"it is not known; use {', '.join(self._names())}")
        from airflow_snowpack.entry_points import load_class

        try:
            return load_class(self._added[kind], self.base, "kind")
        except ValueError as problem:
            raise InvalidSchedule(self.what, kind, f"its entry point {problem}") from problem

    def _names(self) -> Iterable[str]:
        return [*self._own, *sorted(self._added.keys() - self._own.keys())]
