from .history import (
    Commit as Commit,
    NoHistory as NoHistory,
    TableHistory as TableHistory,
    read_history as read_history,
)
from .model import (
    Point as Point,
    Replay as Replay,
    ReplayOutcome as ReplayOutcome,
    SimulatedRun as SimulatedRun,
    TableReplay as TableReplay,
)
from .simulation import (
    passes as passes,
    recorded as recorded,
    simulate as simulate,
)
from .tables import replay_tables as replay_tables
