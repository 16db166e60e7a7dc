from .budget import Budget as Budget, Cost as Cost
from .model import EntryState as EntryState, Pass as Pass, PassEntry as PassEntry, PassState as PassState
from .ranking import Candidate as Candidate, Selection as Selection, rank as rank, select as select
