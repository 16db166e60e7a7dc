"""Bounds YAML and JSON from users before they are parsed: a few hundred bytes of aliases can expand to billions of values, and
deep nesting exceeds the recursion limit of whatever shows the value later.

    check_yaml("default: {cadence: 12h}")       # raises YamlTooLarge with the bound and the line
    is_too_deep(b'{"conf": {"days": 7}}')       # False

The parser's events are counted in one pass without recursion; an alias counts as all values that it refers to. Anchors, aliases
and merge keys remain usable for sharing values.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

MAX_BYTES = 1024 * 1024
MAX_VALUES = 100_000
"""Keys, values, lists and mappings of a text, including the values that its aliases refer to."""
MAX_DEPTH = 50
MAX_PLAIN = 3_500
"""Characters of an unquoted value. YAML may read it as a number, in quadratic time, and Python shows at most 4,300 digits."""
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)


class YamlTooLarge(ValueError):
    """The text exceeds a bound.

    :ivar line: its number, from 1.
    """

    def __init__(self, problem: str, line: int) -> None:
        self.line = line
        super().__init__(problem)


def check_yaml(text: str) -> None:
    """Check that the text is within all bounds.

    :raises YamlTooLarge: it is not.
    :raises yaml.YAMLError: it is not YAML.
    """
    import yaml

    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise YamlTooLarge(f"it has {size:,} bytes, and at most {MAX_BYTES:,} are allowed; split it into several files", 1)
    counter = _Counter()
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        counter.add(event)


def is_too_deep(text: bytes) -> bool:
    """Return whether a JSON text, valid or not, is nested more than :data:`MAX_DEPTH` levels deep."""
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", STRING.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


class _Counter:
    def __init__(self) -> None:
        self._values = 0
        self._known: dict[str, tuple[int, int]] = {}
        """The number of values and the depth of each anchor."""
        self._open: list[tuple[str | None, int]] = []
        """The anchor of each collection around the event, and the number of values before it."""
        self._deepest: list[int] = [0]
        """The depth of the values in the text and in each open collection."""

    def add(self, event: Any) -> None:
        import yaml

        match event:
            case yaml.AliasEvent():
                if any(anchor == event.anchor for anchor, _ in self._open):
                    self._refuse(event, f"the alias *{event.anchor} refers to a value that contains it")
                self._count(event, *self._known.get(event.anchor or "", (1, 0)))
            case yaml.ScalarEvent():
                if len(event.value) > MAX_PLAIN and not event.implicit[1]:
                    self._refuse(event, f"a value of more than {MAX_PLAIN:,} characters must be in quotes")
                self._count(event, 1, 0)
                if event.anchor:
                    self._known[event.anchor] = (1, 0)
            case yaml.CollectionStartEvent():
                self._open.append((event.anchor, self._values))
                self._deepest.append(0)
                self._count(event, 1, 0)
            case yaml.CollectionEndEvent():
                anchor, before = self._open.pop()
                depth = self._deepest.pop() + 1
                self._deepest[-1] = max(self._deepest[-1], depth)
                if anchor:
                    self._known[anchor] = (self._values - before, depth)

    def _count(self, event: Any, values: int, depth: int) -> None:
        self._values += values
        self._deepest[-1] = max(self._deepest[-1], depth)
        if self._values > MAX_VALUES:
            self._refuse(event, f"it has more than {MAX_VALUES:,} values with those that its aliases refer to")
        if len(self._open) + depth > MAX_DEPTH:
            self._refuse(event, f"it is nested more than {MAX_DEPTH} levels deep with what its aliases refer to")

    def _refuse(self, event: Any, problem: str) -> NoReturn:
        raise YamlTooLarge(problem, event.start_mark.line + 1)
