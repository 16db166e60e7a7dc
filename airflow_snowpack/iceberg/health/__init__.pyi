from .bounds import HealthBounds as HealthBounds
from .file_counts import FileCounts as FileCounts
from .model import (
    PartitionHealth as PartitionHealth,
    Ref as Ref,
    SnapshotHealth as SnapshotHealth,
    SnapshotLog as SnapshotLog,
    SpecField as SpecField,
    TableHealth as TableHealth,
)
from .numbers import TableNumbers as TableNumbers, read_numbers as read_numbers
from .reading import read_health as read_health
from .score import Score as Score, ScorePart as ScorePart, score as score
