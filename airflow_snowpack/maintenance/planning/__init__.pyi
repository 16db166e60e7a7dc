from .finding import (
    Cause as Cause,
    Estimate as Estimate,
    Facts as Facts,
    Finding as Finding,
    Rate as Rate,
    Threshold as Threshold,
)
from .model import (
    ActionVerdict as ActionVerdict,
    Decision as Decision,
    TablePlan as TablePlan,
)
from .planner import Planner as Planner
from .table_plan import plan_table as plan_table
