from .snowpack_dispatcher import scheduler as scheduler
from .snowpack_interim_collector import collector as collector
from .snowpack_maintain_fleet import fleet as fleet
from .snowpack_notifications import notifications as notifications
from .snowpack_prune import prune as prune
from .snowpack_sweep import sweep as sweep
from .snowpack_workers import workers as workers
