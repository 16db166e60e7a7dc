"""Which environment variables an entry receives from its task.

    added_environment(ModuleEntry("acme:score"), isolated=True, command_env={"API_TOKEN": "…"}, own=os.environ)

| entry | subprocess | docker, kubernetes |
|---|---|---|
| module | ``command_env`` on top of the worker's environment | ``KNOBS`` and ``command_env`` on top of the image's |
| shell | ``command_env`` on top of the worker's environment | ``command_env`` on top of the image's |

The invariant: an isolated entry receives no address, no connection and no secret of the worker.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_snowpack.runners.entry import Entry, ModuleEntry, check_environment
from airflow_snowpack.runners.entry_process import LOG_LEVEL

# What an isolated module entry receives from the worker's environment, where it is set.
KNOBS = (LOG_LEVEL,)


def added_environment(entry: Entry, *, isolated: bool, command_env: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables on top of those that the runner starts from.

    :param isolated: whether the runner starts from an image's environment instead of the worker's.
    :param command_env: from the user; may be secret.
    :param own: the worker's environment.
    :raises InvalidEntry: a name or a value cannot be that of a variable. The error contains no value.
    """
    check_environment(command_env)
    knobs = {name: own[name] for name in KNOBS if name in own} if isolated and isinstance(entry, ModuleEntry) else {}
    return {**knobs, **command_env}
