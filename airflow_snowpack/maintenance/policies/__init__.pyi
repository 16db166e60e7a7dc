from .definitions import policies_schema as policies_schema
from .errors import (
    InvalidPolicies as InvalidPolicies,
    PoliciesNotFound as PoliciesNotFound,
    PolicyFinding as PolicyFinding,
    Problem as Problem,
)
from .explanation import PolicyValue as PolicyValue, values_of as values_of
from .lint import TableFacts as TableFacts, lint as lint
from .model import (
    ActionPolicy as ActionPolicy,
    TablePolicy as TablePolicy,
    TableProblem as TableProblem,
    ValueOrigin as ValueOrigin,
)
from .policies import Policies as Policies, PoliciesFile as PoliciesFile
from .rule import Rule as Rule
