"""The gate before Dagster's web server: an ASGI middleware that decides who may call it, from which page, and how.

Dagster's web server has no login, takes changes from the address of a GET and from a form, and does not ask which site a
call comes from, so that any web page open on the machine could start runs. The gate refuses

- a Host that is none of the server's names: a foreign name that resolves to loopback (DNS rebinding);
- a call or a websocket from a page of another origin (Origin, Sec-Fetch-Site);
- every method but GET, HEAD and POST, a POST that is not JSON, and GraphQL in the address of a GET;
- whoever has no login. The login is a link with a token, which sets a cookie and redirects to the address without the
  token. Programs send the token as `Authorization: Bearer TOKEN`.
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
"""The parameter of an address that has the token."""

_LOGIN = """<!doctype html>
<meta charset="utf-8">
<title>Log in to Keyfold</title>
<h1>Log in</h1>
<p>Open the link with the token that <code>make ui</code> printed. The token changes each time the server starts.</p>
<p>If this browser is logged in and you came here by a link from elsewhere: <a href="">go on</a>.</p>
"""
_OF_THE_LOGIN = {
    "Content-Security-Policy": "default-src 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Gate:
    """Passes the calls of who has logged in, made by the server's own pages or by a program, and refuses all others.

    Args:
        app: the application behind the gate.
        token: that logs in; secret.
        names: by which the server may be called besides loopback's, as a proxy before it passes them on.

    Example:
        >>> Gate(app, secrets.token_urlsafe(32), ["keyfold.example.org"])  # doctest: +SKIP
    """

    def __init__(self, app: ASGIApp, token: str, names: Collection[str] = ()) -> None:
        self._app = app
        self._token = token
        self._names = NAMES | {name.lower() for name in names}
        # Derived, so that who sees the cookie does not know the link.
        self._session = hmac.new(token.encode(), b"session", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a call, as ASGI has it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = _take_token(scope)
        connection = HTTPConnection(scope)
        refusal = self._refusal(connection) or self._login(connection, given)
        if refusal is None:
            await self._app(scope, receive, _unframed(send))
        elif scope["type"] == "websocket":
            # Closed before it was accepted: the server answers 403.
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refusal(scope, receive, _unframed(send))

    def _refusal(self, call: HTTPConnection) -> Response | None:
        """Why a call is refused whoever makes it; None where it is not."""
        hosts = call.headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._names:
            return _plain(HTTPStatus.FORBIDDEN, "This name is not the server's; KEYFOLD_UI_HOSTS adds names.")
        if _is_foreign(call, hosts[0].lower()):
            return _plain(HTTPStatus.FORBIDDEN, "A page of another site may not call this server.")
        return _wrong_form(call) if call.scope["type"] == "http" else None

    def _login(self, call: HTTPConnection, given: str | None) -> Response | None:
        """The answer to who logs in, or has to; None to who has."""
        cookie = f"keyfold-{(call.scope.get('server') or ('', 0))[1]}"
        scheme, _, bearer = call.headers.get("authorization", "").partition(" ")
        is_known = _same(call.cookies.get(cookie, ""), self._session) or (
            scheme.lower() == "bearer" and _same(bearer.strip(), self._token)
        )
        is_link = given is not None and call.scope["type"] == "http" and call.scope["method"] == "GET"
        if is_link and (is_known or _same(given or "", self._token)):
            answer = RedirectResponse(_address(call.scope), HTTPStatus.SEE_OTHER, _OF_THE_LOGIN)
            is_safe = call.scope["scheme"] == "https"
            # By the port: browsers keep cookies by the name alone, and another server on it has its own.
            answer.set_cookie(cookie, self._session, httponly=True, samesite="strict", secure=is_safe)
            return answer
        return None if is_known else HTMLResponse(_LOGIN, HTTPStatus.UNAUTHORIZED, _OF_THE_LOGIN)


def _take_token(scope: Scope) -> str | None:
    """The token in an address, which has it no more: what logs addresses reads this very scope."""
    query = scope["query_string"].decode("latin-1")
    values = parse_qs(query, keep_blank_values=True).get(TOKEN)
    if values is None:
        return None
    rest = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != TOKEN]
    scope["query_string"] = urlencode(rest).encode()
    return values[-1]


def _is_foreign(call: HTTPConnection, host: str) -> bool:
    """Whether a page of another origin makes the call; a program that is no browser says nothing of that."""
    # By the authority alone: a proxy speaks https to the browser and http to this server.
    own = {f"{scheme}://{host}" for scheme in ("http", "https")}
    if any(origin.lower() not in own for origin in call.headers.getlist("origin")):
        return True
    sites = call.headers.getlist("sec-fetch-site")
    return not _opens_a_page(call) and any(site not in ("same-origin", "none") for site in sites)


def _opens_a_page(call: HTTPConnection) -> bool:
    """Whether somebody follows a link: a change is never made by that, and another site does not see what comes."""
    wanted = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    is_get = call.scope["type"] == "http" and call.scope["method"] == "GET"
    return is_get and all(call.headers.get(name) == value for name, value in wanted.items())


def _wrong_form(call: HTTPConnection) -> Response | None:
    """Why a call is refused in whose form a page of another site could make a change; None where it is not."""
    method, path = call.scope["method"], call.scope["path"]
    # Each of them: of two, the application may look at the other.
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
    # One slash: an address that begins with two leads to another server.
    path = quote("/" + scope["path"].lstrip("/\\"), safe="/")
    query = scope["query_string"].decode()
    return f"{path}?{query}" if query else path


def _same(given: str, wanted: str) -> bool:
    # Bytes: text that is not ASCII would be an error.
    return hmac.compare_digest(given.encode(), wanted.encode())


def _plain(status: HTTPStatus, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


def _unframed(send: Send) -> Send:
    """Send, and tell browsers that no other site may frame or embed what is sent."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.append("Content-Security-Policy", "frame-ancestors 'none'")
            headers["Cross-Origin-Resource-Policy"] = "same-origin"
        await send(message)

    return send_with_headers
