"""Errors of a command's arguments and of its prompts."""

from collections.abc import Sequence

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.jobs import TableLock


class UsageProblem(SnowpackError, kind=Kind.INVALID):
    """Invalid argument."""


class AmbiguousId(UsageProblem, kind=Kind.INVALID):
    """The id is ambiguous.

    :param ids: what the matches are, in the plural.
    """

    def __init__(self, given: str, ids: str, matches: Sequence[str], *, more: bool) -> None:
        rest = " and more" if more else ""
        super().__init__(f"{given!r} is the beginning of several {ids}: {', '.join(matches)}{rest}. Pass more characters.")


class Unconfirmed(UsageProblem, kind=Kind.INVALID):
    """Confirmation required."""

    def __init__(self, question: str) -> None:
        super().__init__(f"{question} There is no terminal for the prompt, so nothing was done. Pass --yes to skip this prompt.")


class UnreadableFile(UsageProblem, kind=Kind.INVALID):
    """The file cannot be read."""

    def __init__(self, file: str, problem: object) -> None:
        super().__init__(
            f"{file!r} cannot be read: {problem}. Pass a file, or - for standard input where the command accepts it."
        )


class NoAirflow(UsageProblem, kind=Kind.INVALID):
    """No connection to Airflow's REST API."""

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"No connection to Airflow's REST API is named, and only Airflow knows {wanted}. Nothing was done. "
            "Pass --airflow-conn-id, or set [snowpack] airflow_conn_id, to a connection of the type http with the address of "
            "the API server, a user and a password."
        )


class NotTheHolder(SnowpackError, kind=Kind.REFUSED):
    """Another owner holds the lock."""

    def __init__(self, lock: TableLock, given: str) -> None:
        super().__init__(f"{lock.table.dotted} is locked by {lock.holder}, not by {given!r}. Nothing was released.")


class NoToken(SnowpackError, kind=Kind.MISCONFIGURED):
    """No API token."""

    def __init__(self, variable: str, problem: str | None = None) -> None:
        super().__init__(
            f"{problem or 'The API needs a token.'} "
            f"Create one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`, and pass it "
            f"in a file (--token-file), in the environment variable {variable}, or as [snowpack] api_token."
        )


class WeakToken(SnowpackError, kind=Kind.MISCONFIGURED):
    """The API token is too short."""

    def __init__(self, length: int, least: int) -> None:
        super().__init__(
            f"The API's token has {length} characters and needs at least {least}. "
            "Create one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`."
        )


class Declined(SnowpackError, kind=Kind.REFUSED):
    """Cancelled at the prompt."""

    def __init__(self) -> None:
        super().__init__("Cancelled: nothing was done.")
