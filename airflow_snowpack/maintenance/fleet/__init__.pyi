from .budget import Budget as Budget
from .model import EntryState as EntryState, Pass as Pass, PassEntry as PassEntry, PassState as PassState
from .ranking import Candidate as Candidate, rank as rank, select as select
