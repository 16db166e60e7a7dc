"""What can be wrong with a request for maintenance."""

from __future__ import annotations

from airflow_snowpack.errors import SnowpackError


class UnknownAction(SnowpackError):
    """An action that does not exist."""

    def __init__(self, name: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"{name[:80]!r} is not a maintenance action. Use one or more of: {', '.join(allowed)}.")


class NoActions(SnowpackError):
    """A request that asks for nothing."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"The list of actions is empty. Name at least one of: {', '.join(allowed)}.")


class InvalidActionOrder(SnowpackError):
    """An ``action_order`` setting that leaves an action out, repeats one or names something else."""

    def __init__(self, given: tuple[str, ...], allowed: tuple[str, ...]) -> None:
        super().__init__(
            f"The action order {', '.join(given)!r} is not usable. Name each of these exactly once: {', '.join(allowed)}."
        )


class InvalidOption(SnowpackError):
    """An option that an action does not take, or whose value it cannot use."""

    def __init__(self, action: str, option: str, problem: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"The option {option[:80]!r} of {action} {problem}. {action} takes: {', '.join(allowed)}.")


class InvalidPredicate(InvalidOption):
    """A ``where`` that cannot be evaluated on the table."""

    def __init__(self, action: str, table: str, where: str, problem: str) -> None:
        SnowpackError.__init__(self, f"The predicate {where[:200]!r} of {action} cannot be evaluated on {table}: {problem}.")
