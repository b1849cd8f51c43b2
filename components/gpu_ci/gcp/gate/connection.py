"""Connections of Google's Python client."""

from __future__ import annotations

from typing import Any


def connect(credentials: Any, timeout_sec: float) -> Any:
    """Return a connection with these credentials. It is not thread-safe.

    Args:
        credentials: Credentials of google-auth, which the connection renews.
        timeout_sec: The time limit of each request to the API.
    """
    from google.auth.transport.requests import Request
    from google_auth_httplib2 import AuthorizedHttp
    from googleapiclient.http import build_http

    connection = build_http()
    connection.timeout = timeout_sec
    authorized = AuthorizedHttp(credentials, http=connection)
    # google-auth limits the time of each request for a token. httplib2 ignores this limit, and google-auth-httplib2 0.4
    # prints a warning for each request. Its AuthorizedHttp has no argument for another transport.
    authorized._request = Request()
    return authorized
