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
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyfold.machine import ADDRESS, NAMES, host_name

TOKEN = "token"  # noqa: S105 - the name of the parameter
"""The URL parameter that contains the token."""

PRIVATE = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
"""Headers of an answer that is for its reader alone."""

_LOGIN = """<!doctype html><meta charset="utf-8"><title>Log in to Keyfold</title><h1>Log in</h1>
<p>Open the link with the token that <code>make ui</code> prints.</p>
<p>If this browser is logged in and you followed a link from another site: <a href="">continue</a>.</p>
"""
_OF_THE_LOGIN = PRIVATE | {"Content-Security-Policy": "default-src 'none'"}
_UNFRAMED = {"Content-Security-Policy": "frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin"}


class Gate:
    """Passes calls of logged-in users, made by the server's own pages or by programs, and refuses all others.

    Args:
        app: the application behind the gate.
        token: the login token; secret, and not empty.
        name: host name of a proxy before the server, besides loopback's names.

    Example:
        >>> Gate(app, secrets.token_urlsafe(32), "keyfold.example.org")  # doctest: +SKIP
    """

    def __init__(self, app: ASGIApp, token: str, name: str = ADDRESS) -> None:
        self._app = app
        self._token = token
        self._names = NAMES | {name.lower()}
        # The cookie is derived from the token, so it does not reveal the link.
        self._session = hmac.new(token.encode(), b"session", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI call."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        token = _take_token(scope)
        call = HTTPConnection(scope)
        answer = self._refusal(call) or self._login(call, token) or self._app
        # No other site may frame or embed the answer.
        await with_headers(answer, _UNFRAMED)(scope, receive, send)

    def _refusal(self, call: HTTPConnection) -> ASGIApp | None:
        """Return the refusal of a call that is not allowed to any user, or None."""
        scope, hosts = call.scope, call.headers.getlist("host")
        method, path = scope.get("method", "GET"), scope["path"]
        host = hosts[0].lower() if len(hosts) == 1 else ""
        # All headers are checked: the application may use another than the first.
        kinds = [kind.partition(";")[0].strip().lower() for kind in call.headers.getlist("content-type")]
        in_url = "graphql" in path.split("/") and scope["query_string"] != b""
        for is_wrong, status, why in (
            (host_name(host) not in self._names, 403, "Unknown host name. KEYFOLD_UI_URL names a proxy's."),
            (_is_foreign(call, host), 403, "A page of another site may not call this server."),
            (method == "POST" and kinds != ["application/json"], 415, "Calls are made as application/json."),
            (method not in ("GET", "HEAD", "POST"), 405, "GET, HEAD and POST are served."),
            (re.search(r"[\0-\x1f\x7f]", path), 400, "A path has no control characters."),
            (method != "POST" and in_url, 405, "GraphQL is called by POST, as application/json."),
        ):
            if is_wrong:
                return PlainTextResponse(f"{why}\n", status)
        return None

    def _login(self, call: HTTPConnection, token: str | None) -> ASGIApp | None:
        """Return the answer to a login link or to a caller without a login; None if the caller is logged in."""
        # Browsers share cookies between ports, and each server has its own token.
        cookie = f"keyfold-{(call.scope.get('server') or ('', 0))[1]}"
        is_known = _same(call.cookies.get(cookie, ""), self._session) or _same(
            call.headers.get("authorization", ""), f"Bearer {self._token}"
        )
        is_link = token is not None and call.scope["type"] == "http" and call.scope["method"] == "GET"
        # A logged-in user who opens a link with an old token is redirected too, so that no page keeps a token in its URL.
        if is_link and (is_known or _same(token or "", self._token)):
            answer = RedirectResponse(_address(call.scope), 303, _OF_THE_LOGIN)
            is_safe = call.scope["scheme"] == "https"
            answer.set_cookie(cookie, self._session, httponly=True, samesite="strict", secure=is_safe)
            return answer
        return None if is_known else HTMLResponse(_LOGIN, 401, _OF_THE_LOGIN)


def _take_token(scope: Scope) -> str | None:
    """Return the token of a URL, and remove it from the scope, which access logs read."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    token = dict(query).get(TOKEN)
    if token is not None:
        scope["query_string"] = urlencode([(name, value) for name, value in query if name != TOKEN]).encode()
    return token


def _is_foreign(call: HTTPConnection, host: str) -> bool:
    """Return whether a page of another origin makes the call. Programs other than browsers send no origin."""
    # A proxy that does not say so (X-Forwarded-Proto) may speak https to the browser and http to this server.
    schemes = ("https",) if call.scope["scheme"] in ("https", "wss") else ("http", "https")
    origins = {f"{scheme}://{host}" for scheme in schemes}
    if any(origin.lower() not in origins for origin in call.headers.getlist("origin")):
        return True
    # A link from another site opens a page: this cannot make a change, and the other site does not see the answer.
    wanted = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    is_get = call.scope["type"] == "http" and call.scope["method"] == "GET"
    opens_a_page = is_get and all(call.headers.get(name) == value for name, value in wanted.items())
    sites = call.headers.getlist("sec-fetch-site")
    return not opens_a_page and any(site not in ("same-origin", "none") for site in sites)


def _address(scope: Scope) -> str:
    # Exactly one slash: a redirect to an address with two leads to another server.
    path = quote("/" + scope["path"].lstrip("/\\"), safe="/")
    query = scope["query_string"].decode()
    return f"{path}?{query}" if query else path


def _same(token: str, wanted: str) -> bool:
    # As bytes, since compare_digest raises on text that is not ASCII.
    return hmac.compare_digest(token.encode(), wanted.encode())


def with_headers(app: ASGIApp, headers: Mapping[str, str]) -> ASGIApp:
    """Add headers to the answers of an application, after its own of the same name."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                for name, value in headers.items():
                    MutableHeaders(scope=message).append(name, value)
            await send(message)

        await app(scope, receive, send_with_headers)

    return answer
