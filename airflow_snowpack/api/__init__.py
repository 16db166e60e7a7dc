"""The REST API and the pages: one app, mounted in Airflow's API server or served alone. It knows no Airflow.

    app = build_app(open_services, TokenAuth("…"))

Import :func:`build_app` only where it is called: FastAPI takes half a second.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
