from .model import (
    ActionNeed as ActionNeed,
    Assessment as Assessment,
    TableAssessment as TableAssessment,
)
from .resume import (
    ResumeFile as ResumeFile,
    UnusableResumeFile as UnusableResumeFile,
)
from .table import assess_health as assess_health
from .walk import Walk as Walk
