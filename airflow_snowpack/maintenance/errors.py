"""Errors of maintenance requests."""

from __future__ import annotations

from airflow_snowpack.errors import Kind, SnowpackError


class UnknownAction(SnowpackError, kind=Kind.INVALID):
    """Unknown action."""

    def __init__(self, name: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"{name[:80]!r} is not a maintenance action. Use one or more of: {', '.join(allowed)}.")


class UnusableAction(SnowpackError, kind=Kind.MISCONFIGURED):
    """Unusable action of another package."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"The action {name!r} is an entry point of another package, and {problem}. Fix or remove that package.")


class NoActions(SnowpackError, kind=Kind.INVALID):
    """No actions given."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"The list of actions is empty. Name at least one of: {', '.join(allowed)}.")


class InvalidActionOrder(SnowpackError, kind=Kind.MISCONFIGURED):
    """Invalid action order."""

    def __init__(self, given: tuple[str, ...], allowed: tuple[str, ...]) -> None:
        super().__init__(
            f"The action order {', '.join(given)!r} is not usable. Name each action exactly once: {', '.join(allowed)}."
        )


class InvalidOption(SnowpackError, kind=Kind.INVALID):
    """Invalid option."""

    def __init__(self, action: str, option: str, problem: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"The option {option[:80]!r} of {action} {problem}. {action} takes: {', '.join(allowed)}.")


class InvalidPredicate(InvalidOption, kind=Kind.INVALID):
    """Invalid predicate."""

    def __init__(self, action: str, table: str, where: str, problem: str) -> None:
        SnowpackError.__init__(self, f"The predicate {where[:200]!r} of {action} cannot be evaluated on {table}: {problem}.")


class PlanTakesNoOptions(SnowpackError, kind=Kind.INVALID):
    """Options beside planned actions."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} cannot be given with the actions 'auto': the table's policy has the options of a plan. Set it in the "
            "policy, or name the actions. `airflow snowpack policies explain` shows the policy of a table."
        )


class OtherTableInSpark(SnowpackError, kind=Kind.MISCONFIGURED):
    """Another table in Spark."""

    def __init__(self, table: str, theirs: str, ours: str) -> None:
        super().__init__(
            f"Spark has another table named {table}: {theirs} is current there, and {ours} in the catalog of this process. Have "
            "spark.sql.catalog.* of Spark or its server reach the catalog of catalog_conn_id, or set the extra send_catalog of "
            "its connection."
        )
