"""The policies file of an installation, reloaded when it changes."""

from __future__ import annotations

from pathlib import Path

from airflow_snowpack.maintenance.policies.policies import Policies

DEFAULT_NAME = "policies.yaml"


class PoliciesFile:
    """A file with :class:`Policies`, which a long-running process keeps and reloads after each change.

    :param path: a YAML or Python file.
    :param required: whether a missing file is an error; otherwise the defaults apply.
    """

    def __init__(self, path: Path, *, required: bool = True) -> None:
        self.path = path
        self._required = required
        self._read: tuple[tuple[int, int, int], Policies] | None = None

    @classmethod
    def of_setting(cls, text: str, root: Path) -> PoliciesFile:
        """Return the file that ``[snowpack] policies`` names, relative to ``root``; only the default file may be missing."""
        return cls(root / Path(text).expanduser(), required=text != DEFAULT_NAME)

    def policies(self) -> Policies:
        """Return the current policies of the file.

        :raises PoliciesNotFound: the file is required, and cannot be read.
        :raises InvalidPolicies: the file has problems.
        """
        version = self._version()
        if version is None:
            return Policies()
        if self._read is None or self._read[0] != version:
            self._read = version, Policies.load(self.path)
        return self._read[1]

    def _version(self) -> tuple[int, int, int] | None:
        """Return a version that changes with the content; ``None`` for an optional file that is missing."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return (0, 0, 0) if self._required else None
        except OSError:
            return 0, 0, 0  # the read reports the error
        return found.st_mtime_ns, found.st_size, found.st_ino
