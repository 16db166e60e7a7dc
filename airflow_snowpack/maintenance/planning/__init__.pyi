from .model import (
    Cause as Cause,
    Decision as Decision,
    Estimate as Estimate,
    TablePlan as TablePlan,
    Verdict as Verdict,
)
from .planner import Planner as Planner
from .table_plan import plan_table as plan_table
