"""Links in answers: relative to the host, and below the root path under which the app is mounted."""

from urllib.parse import parse_qsl, urlencode

from fastapi import Request


def link_to(request: Request, path: str) -> str:
    """The path as the client reaches it, such as ``/snowpack/jobs/…`` below Airflow."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/") + path


def link_to_next(request: Request, path: str, cursor: str) -> str:
    """A ``Link`` header for the page that begins at the cursor, with the same filter."""
    asked = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    kept = [(name, value) for name, value in asked if name != "cursor"]
    return f'<{link_to(request, path)}?{urlencode([*kept, ("cursor", cursor)])}>; rel="next"'
