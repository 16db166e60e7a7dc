"""Errors of a command's arguments and of its prompts."""

from airflow_snowpack.errors import Kind, SnowpackError


class UsageProblem(SnowpackError, kind=Kind.INVALID):
    """Invalid argument."""


class UnreadableFile(UsageProblem, kind=Kind.INVALID):
    """The file cannot be read."""

    def __init__(self, file: str, problem: object) -> None:
        super().__init__(
            f"{file!r} cannot be read: {problem}. Pass a file, or - for standard input where the command accepts it."
        )


class UnusableToken(SnowpackError, kind=Kind.MISCONFIGURED):
    """The API token is missing or too short."""

    def __init__(self, problem: str, rest: str = ".") -> None:
        super().__init__(f"{problem} Create one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`{rest}")


class NothingDone(SnowpackError, kind=Kind.REFUSED):
    """The command was declined, or does not apply."""
