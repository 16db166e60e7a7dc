from .action import (
    DEFAULT_ORDER as DEFAULT_ORDER,
    Action as Action,
    action_names as action_names,
    in_order as in_order,
    parse_actions as parse_actions,
    parse_order as parse_order,
)
from .action_run import ActionEffect as ActionEffect, ActionRun as ActionRun, PlanningContext as PlanningContext
from .actions.expire_snapshots import ExpireSnapshots as ExpireSnapshots
from .actions.remove_orphan_files import RemoveOrphanFiles as RemoveOrphanFiles
from .actions.rewrite_data_files import RewriteDataFiles as RewriteDataFiles, Strategy as Strategy
from .actions.rewrite_manifests import RewriteManifests as RewriteManifests
from .actions.rewrite_position_delete_files import RewritePositionDeleteFiles as RewritePositionDeleteFiles
from .errors import (
    InvalidActionOrder as InvalidActionOrder,
    InvalidOption as InvalidOption,
    NoActions as NoActions,
    UnknownAction as UnknownAction,
    UnusableAction as UnusableAction,
)
from .options import (
    ActionOptions as ActionOptions,
    action_class as action_class,
    parse_all_options as parse_all_options,
    parse_options as parse_options,
)
from .plan import plan_action as plan_action
from .spark_engine import SparkEngine as SparkEngine
