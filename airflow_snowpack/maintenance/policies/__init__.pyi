from .errors import Fault as Fault, InvalidPolicies as InvalidPolicies, PoliciesNotFound as PoliciesNotFound
from .file import PoliciesFile as PoliciesFile
from .model import (
    ActionPolicy as ActionPolicy,
    Origin as Origin,
    TablePolicy as TablePolicy,
    TableProblem as TableProblem,
)
from .policies import Policies as Policies
from .rule import Rule as Rule
