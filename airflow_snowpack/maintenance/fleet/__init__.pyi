from .budget import Budget as Budget
from .model import EntryState as EntryState, Pass as Pass, PassEntry as PassEntry, PassState as PassState
