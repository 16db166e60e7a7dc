from .app import build_app as build_app
from .auth import Auth as Auth, Forbidden as Forbidden, NotAuthenticated as NotAuthenticated, TokenAuth as TokenAuth, User as User
from .services import Services as Services
