"""Find problems of policies whose file is valid.

    findings = lint(policies, [TableFacts(table, loaded.properties, loaded.schema()), …], now=utc_now())

These are rules without an effect, and properties and values that do not fit the tables.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from airflow_snowpack.humanize import plural
from airflow_snowpack.maintenance.condition import check_condition
from airflow_snowpack.maintenance.condition_tokens import UnusableCondition
from airflow_snowpack.maintenance.policies.definitions import nearest
from airflow_snowpack.maintenance.policies.errors import PolicyFinding, Problem
from airflow_snowpack.maintenance.policies.model import Quiet
from airflow_snowpack.maintenance.policies.properties import is_relevant, known_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from pyiceberg.schema import Schema

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.policies.model import TablePolicy, ValueOrigin
    from airflow_snowpack.maintenance.policies.policies import Policies
    from airflow_snowpack.maintenance.policies.rule import Rule

MOST_SIMILAR = 0.85
"""The similarity from which an unknown property counts as misspelled."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is known of a table.

    :param schema: ``None`` if only the properties are known; then predicates are not checked.
    :param problem: why the table cannot be read; ``None`` if it can.
    """

    table: TableName
    properties: Mapping[str, str] = field(default_factory=dict)
    schema: Schema | None = None
    problem: str | None = None


def lint(policies: Policies, tables: Iterable[TableFacts], *, now: datetime) -> list[PolicyFinding]:
    """Return the problems of policies on these tables, those of rules first.

    :param tables: all tables of the catalog; if empty, only rules are checked.
    :param now: the time from which quiet windows are followed.
    """
    use = _Use(policies)
    of_tables: list[PolicyFinding] = []
    contradictions: dict[str, PolicyFinding] = {}
    for facts in tables:
        policy = policies.of(facts.table, facts.properties)
        use.count(facts.table)
        of_tables += _of_table(facts, policy)
        for path, found in _contradictions(policy, now):
            contradictions.setdefault(path, found)
    return [*use.findings(), *contradictions.values(), *of_tables]


class _Use:
    """Which patterns match a table, and which rules have an effect on one."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._tables = 0
        self._matched: set[tuple[int, str]] = set()
        self._rule_tables: dict[int, int] = defaultdict(int)
        self._effective: set[int] = set()
        self._overriding: dict[int, set[ValueOrigin]] = defaultdict(set)

    def count(self, table: TableName) -> None:
        self._tables += 1
        policy = self._policies.of(table, {})
        # If a table is not maintained, only the rule that excludes it has an effect.
        used = set(policy.origins.values()) if policy.skip is None else {policy.origin("skip")}
        for number in {number for _, _, number in self._policies.candidates(table)}:
            rule = self._policies.rules[number]
            self._matched |= {
                (number, pattern.text) for pattern in (*rule.patterns, *rule.exclude) if pattern.matches(table.dotted)
            }
        for number in self._policies.matching(table):
            rule = self._policies.rules[number]
            self._rule_tables[number] += 1
            if any(given.origin in used for given in rule.values.values()):
                self._effective.add(number)
            else:
                paths = rule.values if policy.skip is None else ("skip",)
                self._overriding[number] |= {policy.origin(path) for path in paths}

    def findings(self) -> Iterator[PolicyFinding]:
        for number, rule in enumerate(self._policies.rules):
            where = f"{rule.file}:{rule.line}"
            if not rule.values:
                yield PolicyFinding(Problem.UNUSED_RULE, where, f"The rule {rule.name!r} sets no value. Remove it.")
            if self._tables:
                yield from self._unmatched(number, rule, where)
                if rule.values and self._rule_tables[number] and number not in self._effective:
                    yield PolicyFinding(Problem.UNUSED_RULE, where, self._overridden(number, rule))
                if rule.values and not self._rule_tables[number] and self._matches(number, rule):
                    why = "'exclude' leaves out every table that 'tables' matches. Correct one of them."
                    yield PolicyFinding(Problem.UNUSED_RULE, where, f"The rule {rule.name!r} has no effect: {why}")

    def _matches(self, number: int, rule: Rule) -> bool:
        return any((number, pattern.text) in self._matched for pattern in rule.patterns)

    def _unmatched(self, number: int, rule: Rule, where: str) -> Iterator[PolicyFinding]:
        for key, patterns in (("tables", rule.patterns), ("exclude", rule.exclude)):
            for pattern in patterns:
                if (number, pattern.text) not in self._matched:
                    found = f"matches none of {plural(self._tables, 'table')}"
                    message = f"The pattern {pattern.text!r} in {key!r} {found}. Correct or remove it."
                    yield PolicyFinding(Problem.UNMATCHED_PATTERN, where, message)

    def _overridden(self, number: int, rule: Rule) -> str:
        by = ", ".join(sorted(str(origin) for origin in self._overriding[number]))
        tables = plural(self._rule_tables[number], "table")
        return f"The rule {rule.name!r} has no effect: each of its values is overridden on each of {tables}, by {by}. Remove it."


def _of_table(facts: TableFacts, policy: TablePolicy) -> Iterator[PolicyFinding]:
    where = facts.table.dotted
    if facts.problem is not None:
        yield PolicyFinding(Problem.UNREADABLE_TABLE, where, facts.problem)
    for problem in policy.problems:
        yield PolicyFinding(Problem.PROPERTY, where, problem.message)
    for name in facts.properties:
        if not is_relevant(name) and (near := _nearest_property(name)):
            message = f"The table property {name} is not known, and has no effect; did you mean {near!r}?"
            yield PolicyFinding(Problem.PROPERTY, where, message)
    for action in policy.actions.values():
        if action.where is None or facts.schema is None:
            continue
        try:
            check_condition(action.where, facts.schema, facts.table.catalog)
        except UnusableCondition as error:
            origin = policy.origin(f"{action.action}.where")
            message = f"The predicate {action.where[:200]!r} of {action.action} ({origin}) cannot be evaluated: {error}."
            yield PolicyFinding(Problem.PREDICATE, where, message)


@cache
def _nearest_property(name: str) -> str | None:
    return nearest(name, known_properties(), MOST_SIMILAR)


def _contradictions(policy: TablePolicy, now: datetime) -> Iterator[tuple[str, PolicyFinding]]:
    for action in policy.actions.values():
        deadline, cadence = (policy.origin(f"{action.action}.{key}") for key in ("deadline", "cadence"))
        if action.deadline is not None and action.cadence is not None and action.deadline < action.cadence:
            message = (
                f"{action.action} of {policy.table.dotted} has a deadline ({deadline}) that is shorter than its cadence "
                f"({cadence}), so the cadence holds. Set the deadline to the cadence or more."
            )
            yield f"deadline {deadline} {cadence}", PolicyFinding(Problem.CONTRADICTION, policy.table.dotted, message)
    if policy.quiet_at(now) == Quiet(None):
        origin = policy.origin("quiet")
        message = f"The quiet windows of {policy.table.dotted} ({origin}) cover the whole day, so no maintenance starts."
        yield f"quiet {origin}", PolicyFinding(Problem.CONTRADICTION, policy.table.dotted, message)
