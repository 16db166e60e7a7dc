from .causes import CauseKind as CauseKind, NotificationCause as NotificationCause, find_causes as find_causes
from .delivery import Delivery as Delivery, deliver as deliver
from .message import Message as Message
from .records import DEFAULT as DEFAULT, Notification as Notification, Notifications as Notifications
