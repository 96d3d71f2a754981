"""Protect Dagster's web server by an ASGI middleware with a login and checks of origin and form.

Dagster's web server has no login, accepts changes by the URL of a GET and by HTML forms, and does not check which site a call
comes from. So any web page that is open on the machine could start runs. The gate refuses

- a Host header that is not one of the server's names, such as a foreign name that resolves to loopback (DNS rebinding);
- a call or websocket from a page of another origin (Origin, Sec-Fetch-Site);
- methods other than GET, HEAD and POST, a POST that is not JSON, and GraphQL in the URL of a GET;
- callers without a login. The login is a link with a token; it sets a cookie and redirects to the URL without the token.
  Programs send the token as `Authorization: Bearer TOKEN`.
"""

import hashlib
import hmac
import re
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyfold.machine.loopback import NAMES, host_name

TOKEN = "token"  # noqa: S105 - the name of the parameter
"""The URL parameter that contains the token."""

_LOGIN = """<!doctype html>
<meta charset="utf-8">
<title>Log in to Keyfold</title>
<h1>Log in</h1>
<p>Open the link with the token that <code>make ui</code> printed. The token changes each time the server starts.</p>
<p>If this browser is logged in and you followed a link from another site: <a href="">continue</a>.</p>
"""
_OF_THE_LOGIN = {
    "Content-Security-Policy": "default-src 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Gate:
    """Passes calls of logged-in users, made by the server's own pages or by programs, and refuses all others.

    Args:
        app: the application behind the gate.
        token: the login token; secret.
        names: host names of the server besides loopback's, such as a proxy's.

    Example:
        >>> Gate(app, secrets.token_urlsafe(32), ["keyfold.example.org"])  # doctest: +SKIP
    """

    def __init__(self, app: ASGIApp, token: str, names: Collection[str] = ()) -> None:
        self._app = app
        self._token = token
        self._names = NAMES | {name.lower() for name in names}
        # The cookie is derived from the token, so it does not reveal the link.
        self._session = hmac.new(token.encode(), b"session", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI call."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = _take_token(scope)
        connection = HTTPConnection(scope)
        refusal = self._refusal(connection) or self._login(connection, given)
        if refusal is None:
            await self._app(scope, receive, _unframed(send))
        elif scope["type"] == "websocket":
            # Closing before accepting makes the server answer 403.
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refusal(scope, receive, _unframed(send))

    def _refusal(self, call: HTTPConnection) -> Response | None:
        """Return the refusal of a call that is not allowed to any user, or None."""
        hosts = call.headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._names:
            return _plain(HTTPStatus.FORBIDDEN, "Unknown host name. KEYFOLD_UI_HOSTS adds names.")
        if _is_foreign(call, hosts[0].lower()):
            return _plain(HTTPStatus.FORBIDDEN, "A page of another site may not call this server.")
        return _wrong_form(call) if call.scope["type"] == "http" else None

    def _login(self, call: HTTPConnection, given: str | None) -> Response | None:
        """Return the answer to a login link or to a caller without a login; None if the caller is logged in."""
        cookie = f"keyfold-{(call.scope.get('server') or ('', 0))[1]}"
        scheme, _, bearer = call.headers.get("authorization", "").partition(" ")
        is_known = _same(call.cookies.get(cookie, ""), self._session) or (
            scheme.lower() == "bearer" and _same(bearer.strip(), self._token)
        )
        is_link = given is not None and call.scope["type"] == "http" and call.scope["method"] == "GET"
        # A logged-in user who opens the link of an earlier start is redirected too, so that no page keeps a token in its URL.
        if is_link and (is_known or _same(given or "", self._token)):
            answer = RedirectResponse(_address(call.scope), HTTPStatus.SEE_OTHER, _OF_THE_LOGIN)
            is_safe = call.scope["scheme"] == "https"
            # The cookie's name contains the port: browsers share cookies between ports, and each server has its own token.
            answer.set_cookie(cookie, self._session, httponly=True, samesite="strict", secure=is_safe)
            return answer
        return None if is_known else HTMLResponse(_LOGIN, HTTPStatus.UNAUTHORIZED, _OF_THE_LOGIN)


def _take_token(scope: Scope) -> str | None:
    """Return the token of a URL, and remove it from the scope, which access logs read."""
    query = scope["query_string"].decode("latin-1")
    values = parse_qs(query, keep_blank_values=True).get(TOKEN)
    if values is None:
        return None
    rest = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != TOKEN]
    scope["query_string"] = urlencode(rest).encode()
    return values[-1]


def _is_foreign(call: HTTPConnection, host: str) -> bool:
    """Return whether a page of another origin makes the call. Programs other than browsers send no origin."""
    # Either scheme is accepted: a proxy speaks https to the browser and http to this server.
    own = {f"{scheme}://{host}" for scheme in ("http", "https")}
    if any(origin.lower() not in own for origin in call.headers.getlist("origin")):
        return True
    sites = call.headers.getlist("sec-fetch-site")
    return not _opens_a_page(call) and any(site not in ("same-origin", "none") for site in sites)


def _opens_a_page(call: HTTPConnection) -> bool:
    """Return whether the call follows a link: this cannot make a change, and the other site does not see the answer."""
    wanted = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    is_get = call.scope["type"] == "http" and call.scope["method"] == "GET"
    return is_get and all(call.headers.get(name) == value for name, value in wanted.items())


def _wrong_form(call: HTTPConnection) -> Response | None:
    """Return the refusal of a call in a form that a page of another site could use for a change, or None."""
    method, path = call.scope["method"], call.scope["path"]
    # All headers are checked: the application may use another than the first.
    kinds = [kind.partition(";")[0].strip().lower() for kind in call.headers.getlist("content-type")]
    if method == "POST":
        is_json = kinds == ["application/json"]
        return None if is_json else _plain(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Calls are made as application/json.")
    if method not in ("GET", "HEAD"):
        return _plain(HTTPStatus.METHOD_NOT_ALLOWED, "GET, HEAD and POST are served.")
    if re.search(r"[\0-\x1f\x7f]", path):
        return _plain(HTTPStatus.BAD_REQUEST, "A path has no control characters.")
    if "graphql" in path.split("/") and call.scope["query_string"]:
        return _plain(HTTPStatus.METHOD_NOT_ALLOWED, "GraphQL is called by POST, as application/json.")
    return None


def _address(scope: Scope) -> str:
    # Exactly one slash: a redirect to an address with two leads to another server.
    path = quote("/" + scope["path"].lstrip("/\\"), safe="/")
    query = scope["query_string"].decode()
    return f"{path}?{query}" if query else path


def _same(given: str, wanted: str) -> bool:
    # As bytes, since compare_digest raises on text that is not ASCII.
    return hmac.compare_digest(given.encode(), wanted.encode())


def _plain(status: HTTPStatus, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


def _unframed(send: Send) -> Send:
    """Add headers that forbid other sites to frame or embed the answer."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.append("Content-Security-Policy", "frame-ancestors 'none'")
            headers["Cross-Origin-Resource-Policy"] = "same-origin"
        await send(message)

    return send_with_headers
