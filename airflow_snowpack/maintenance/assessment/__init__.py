"""Assess a catalog: which tables are sick, what maintenance would save and cost, and what blocks it. Nothing is written.

walk = Walk(config.load, policies, clock)
found = walk.assess(tables, progress=show, resume=ResumeFile.open(path, config.catalog_id))
found.in_need[0].table, found.in_need[0].score            # ('demo.flights', 31)
"""

from airflow_snowpack.maintenance.assessment.model import Assessment as Assessment, TableAssessment as TableAssessment
from airflow_snowpack.maintenance.assessment.resume import ResumeFile as ResumeFile, UnusableResumeFile as UnusableResumeFile
from airflow_snowpack.maintenance.assessment.walk import Walk as Walk
