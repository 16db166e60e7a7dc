from .app import build_app as build_app
from .auth import Auth as Auth
from .auth import Forbidden as Forbidden
from .auth import NotAuthenticated as NotAuthenticated
from .auth import TokenAuth as TokenAuth
from .auth import User as User
from .services import Services as Services
