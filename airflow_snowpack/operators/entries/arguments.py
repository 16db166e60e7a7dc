"""The arguments of a task that runs an entry, checked when the DAG file is parsed, and again when templates are rendered.

    check_place("subprocess", image=None, build=None)
    check_python("/opt/venv/bin/python")

:mod:`airflow_snowpack.runners.entry` checks the commands, functions, names and variables themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_snowpack.operators.entries.errors import InvalidRunnerOption
from airflow_snowpack.runners.entry import ShellEntry, check_name
from airflow_snowpack.runners.errors import InvalidEntry

RUNNERS = ("subprocess", "docker", "kubernetes")
ISOLATED = RUNNERS[1:]


def check_place(runner: object, *, image: object, build: object) -> None:
    """Raise :class:`InvalidEntry` if there is no such runner, or if it needs another source of the image."""
    if runner not in RUNNERS:
        raise InvalidEntry("runner", runner, f"use one of {', '.join(RUNNERS)}")
    if image is not None and build is not None:
        raise InvalidEntry("image", image, "the task also has a build; give either image or build")
    if runner in ISOLATED and image is None and build is None:
        raise InvalidEntry("runner", runner, "it needs an image; give image='python:3.12', or build=ImageBuild(…)")
    for name, value in (("image", image), ("build", build)):
        if runner not in ISOLATED and value is not None:
            raise InvalidEntry(name, value, "the runner 'subprocess' uses no image; remove it, or use runner='docker'")
    if (image is not None and not _is_known_later(image)) or (isinstance(image, str) and not image.strip()):
        raise InvalidEntry("image", image, "write the name of an image, such as 'python:3.12'")


SET_BY_THE_TASK = {
    "docker": {
        "image": "use the task's argument image",
        "command": "use the task's argument command",
        "entrypoint": "the entry's command replaces that of the image",
        "environment": "use the task's argument command_env",
        "private_environment": "use the task's argument command_env",
        "env_file": "use the task's argument command_env",
        "auto_remove": "the container is always removed",
        "mount_tmp_dir": "the entry has its exchange folder",
        "tty": "a terminal would mix stdout and stderr",
        "retrieve_output": "use the task's argument outputs",
        "retrieve_output_path": "use the task's argument outputs",
        "xcom_all": "the output is logged",
        "skip_on_exit_code": "an exit code other than 0 fails the task",
    },
    "kubernetes": {
        "image": "use the task's argument image",
        "cmds": "use the task's argument command",
        "arguments": "use the task's argument command",
        "env_vars": "use the task's argument command_env",
        "do_xcom_push": "use the task's argument outputs",
        "get_logs": "the output is always logged",
        "log_formatter": "the output is logged as it is",
        "durable": "each attempt runs its own pod",
        "reattach_on_restart": "each attempt runs its own pod",
        "on_finish_action": "the pod is always deleted",
        "on_kill_action": "the pod is always deleted",
        "is_delete_operator_pod": "the pod is always deleted",
        "skip_on_exit_code": "an exit code other than 0 fails the task",
    },
}
"""Arguments of the providers' operators that are not options of a runner, with what to use instead."""


def check_options(runner: str, options: Mapping[str, Any]) -> None:
    """:raises InvalidEntry, InvalidRunnerOption: the runner has no options, or the task sets this one itself."""
    if options and runner not in ISOLATED:
        raise InvalidEntry("runner_options", sorted(options), f"the runner {runner!r} has no options")
    for name, instead in SET_BY_THE_TASK.get(runner, {}).items():
        if name in options:
            raise InvalidRunnerOption(name, instead)


def shell_entry(command: Any, outputs: Any) -> ShellEntry:
    """Return the entry of a command and its outputs, as written in a DAG file or rendered from templates.

    :raises InvalidEntry: the command is not a list of texts, or the outputs are not a list of names.
    """
    if isinstance(command, str) or not isinstance(command, Sequence):
        problem = "write the program and each argument on its own, such as ['score', '--all']; for a shell, ['sh', '-c', '…']"
        raise InvalidEntry("command", command, problem)
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise InvalidEntry("outputs", outputs, "write a list of names, such as ['scored']")
    if others := [each for each in command if not isinstance(each, str)]:
        problem = f"an argument is a text, not {type(others[0]).__name__}; a task that renders native objects turns texts into"
        raise InvalidEntry("command", others[0], f"{problem} numbers: set its render_template_as_native_obj=False")
    return ShellEntry(tuple(command), tuple(outputs))


def is_known(command: Any) -> bool:
    """Return whether a command in a DAG file contains no output of another task, which exists only when the task runs."""
    parts = command if isinstance(command, Sequence) else [command]
    return not any(hasattr(each, "resolve") for each in parts)


def check_inputs(inputs: object) -> None:
    """:raises InvalidEntry: the inputs are not tables by usable names. A template is accepted as it is."""
    if isinstance(inputs, Mapping):
        for name in inputs:
            check_name("inputs", name)
    elif not _is_known_later(inputs):
        raise InvalidEntry("inputs", inputs, "write a dictionary of tables by name, such as {'flights': clean.output}")


def check_python(python: object, command: object = None) -> None:
    """:raises InvalidEntry: the interpreter of a function is not the name or path of a program, or a command has one."""
    if python is not None and (not isinstance(python, str) or not python.strip() or "\0" in python):
        raise InvalidEntry("python", python, "write the name or path of an interpreter, such as '/opt/venv/bin/python'")
    if python is not None and command is not None:
        raise InvalidEntry("python", python, "a command has none; write the interpreter as its program")


def _is_known_later(value: Any) -> bool:
    """Return whether the value is a text, which may be a template, or the output of another task."""
    return isinstance(value, str) or hasattr(value, "resolve")
