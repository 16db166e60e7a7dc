"""A part of the cluster: servers that start and stop together, with the addresses that other parts and users need.

class Moto(Part):
    name = "moto"
    needs = (Postgres,)                                     # the constructor takes a folder, and these parts in this order

    def start(self) -> None:
        self.run(server, probe)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.cluster.process import ServerProcess


class Part(ABC):
    """Starts and stops its servers.

    :cvar name: how ``make cluster PARTS=…`` names it.
    :cvar needs: the parts that must run before it.
    :ivar servers: those that were started, in this order.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[type[Part], ...]] = ()

    def __init__(self) -> None:
        self.servers: list[ServerProcess] = []

    @abstractmethod
    def start(self) -> None:
        """Start the servers; return when all of them are ready.

        :raises ServerFailed: one ended, or was not ready in time.
        """

    @property
    @abstractmethod
    def addresses(self) -> dict[str, str]:
        """The addresses by their purpose; without secrets."""

    def run(self, server: ServerProcess, probe: Callable[[], object]) -> None:
        """Start a server of this part; see :meth:`ServerProcess.start`."""
        self.servers.append(server)
        server.start(probe)

    def stop(self) -> None:
        """Stop what was started, in the opposite order."""
        while self.servers:
            self.servers.pop().stop()
