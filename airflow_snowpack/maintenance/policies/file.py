"""The policies file of an installation, read again when it changed."""

from __future__ import annotations

from pathlib import Path

from airflow_snowpack.maintenance.policies.policies import Policies

DEFAULT_NAME = "policies.yaml"


class PoliciesFile:
    """A file that holds :class:`Policies`. A process that runs for long keeps one, and reads it again after each change.

    :param path: of a YAML or a Python file.
    :param required: whether a missing file is an error; without it, the defaults hold.
    """

    def __init__(self, path: Path, *, required: bool = True) -> None:
        self.path = path
        self._required = required
        self._read: tuple[tuple[int, int, int], Policies] | None = None

    @classmethod
    def of_setting(cls, text: str, root: Path) -> PoliciesFile:
        """Return the file that ``[snowpack] policies`` names; only the file of the default setting may be missing.

        :param root: the folder that a relative path starts from.
        """
        return cls(root / Path(text).expanduser(), required=text != DEFAULT_NAME)

    def policies(self) -> Policies:
        """Return the policies of the file as it is now.

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
        """Return what changes with the content; ``None`` for a file that is missing and may be."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return (0, 0, 0) if self._required else None
        except OSError:
            return 0, 0, 0  # reading it reports why
        return found.st_mtime_ns, found.st_size, found.st_ino
