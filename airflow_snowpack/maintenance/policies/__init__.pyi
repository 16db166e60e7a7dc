from .model import (
    ActionPolicy as ActionPolicy,
    Origin as Origin,
    QuietWindow as QuietWindow,
    TablePolicy as TablePolicy,
    TableProblem as TableProblem,
)
from .policies import Policies as Policies
from .rule import Rule as Rule
