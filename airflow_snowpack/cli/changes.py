"""Changes: the prompt before those that cannot be undone, and several targets, of which a refused one does not stop the others.

confirm("Cancel job 3f2a…?", yes=args.yes)
changed, code = each(args.schedules, schedules.suspend, lambda stored: print(stored.name))
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from airflow_snowpack.cli.errors import NothingDone, UsageProblem
from airflow_snowpack.cli.output import DATA, is_for_people, note, print_data
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.exit_code import ExitCode, code_of, common_code
from airflow_snowpack.humanize import plural
from airflow_snowpack.scheduling import DiscardsEvents, Waiting
from airflow_snowpack.wire.shape import Body

T = TypeVar("T")
R = TypeVar("R")
N = TypeVar("N", bound="Named")


class Named(Protocol):
    """A stored value with a name."""

    @property
    def name(self) -> str: ...


def confirm(question: str, *, yes: bool) -> None:
    """Require a confirmation, unless ``--yes`` was passed. The prompt goes to stderr.

    :raises NothingDone: the answer was not yes.
    :raises UsageProblem: there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageProblem(
            f"{question} There is no terminal for the prompt, so nothing was done. Pass --yes to skip this prompt."
        )
    print(f"{question} (y/n) ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NothingDone("Cancelled: nothing was done.")


def each(
    targets: Iterable[T], change: Callable[[T], R], done: Callable[[R], object] = lambda _: None
) -> tuple[list[R], ExitCode]:
    """Change or read each target, and report a refusal to stderr.

    :param done: called after each target that was not refused.
    :returns: the results, and the exit code.
    """
    changed: list[R] = []
    codes: list[ExitCode] = []
    for target in targets:
        try:
            result = change(target)
        except SnowpackError as problem:
            note(str(problem))
            codes.append(code_of(problem))
            continue
        changed.append(result)
        done(result)
    return changed, common_code(codes)


def change_each(
    args: Namespace, targets: Iterable[T], change: Callable[[T], N], done: Callable[[N], str], body: Callable[[N], Body]
) -> ExitCode:
    """Change each target and print the changed values: for people a line after each change, in plain text their names.

    :param done: what people read after the name.
    :param body: what JSON has of each.
    """
    people = is_for_people(args.output)
    changed, code = each(targets, change, lambda result: print(f"{result.name}  {done(result)}") if people else None)
    if args.output in DATA:
        print_data(args.output, [body(result) for result in changed])
    elif not people:
        for result in changed:
            print(result.name)
    return code


def changing(update: Callable[..., R], *, yes: bool) -> Callable[[Any], R]:
    """Return a change of a schedule or a registered run, which requires a confirmation where events that wait are discarded."""

    def change(wanted: Any) -> R:
        try:
            return update(wanted, discard=yes)
        except DiscardsEvents as problem:
            confirm(f"{problem.what} Continue?", yes=yes)
            return update(wanted, discard=True)

    return change


def discards(names: Sequence[str], waiting: Callable[[str], Waiting]) -> str:
    """Return for a prompt what these schedules or registered runs discard when they are deleted."""
    found = [waiting(name) for name in names]
    runs, events = sum(each.runs for each in found), sum(each.events for each in found)
    return f"This discards {plural(runs, 'pending run')} with {plural(events, 'event')}."


def deleting(get: Callable[[str], N], delete: Callable[[str], object]) -> Callable[[str], N]:
    """Return a change that deletes what has a name, and returns what it was."""

    def change(name: str) -> N:
        stored = get(name)
        delete(name)
        return stored

    return change
