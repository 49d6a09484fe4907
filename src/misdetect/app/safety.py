"""Who may ask the server, what may be asked, and what a page of it may load: one layer around the whole application.

A page of another site must not read or change anything here: neither by a name that leads to this machine (``Host`` is
checked), nor by a request that the browser marks as another site's (``Origin``, ``Sec-Fetch-Site``). Where the server
is bound beyond this machine, a token is asked for as well: in the address at first, then in a cookie.
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""What this machine is called by those who sit at it."""
MOST_BYTES = 1 << 20
"""Of the body of a request."""
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_READING = ("GET", "HEAD")
_OWN = ("same-origin", "none")


class Guard:
    """``application`` behind all checks. ``hosts``: names under which it may be asked, ``None``: any, which only a
    ``token`` makes safe."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        hosts: Sequence[str] | None = LOCAL,
        token: str | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        if hosts is None and token is None:
            raise ValueError("a server that any name leads to needs a token.")
        self._inner, self._hosts, self._token, self._most = application, hosts, token, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inner(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        answer = self._refusal(scope, headers) or self._entrance(scope, headers)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _with(message["headers"])}
            await send(message)

        if answer is not None:
            await answer(scope, receive, guarded)
            return
        await self._inner(scope, _bounded(receive, self._most), guarded)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """The answer to what nobody may ask."""
        host = headers.get("host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            return refused(403, "this server is not asked under that name; use the address that it printed.")
        if scope["method"] not in (*_READING, "POST"):
            return refused(405, f"{str(scope['method'])[:20]} is nothing that can be asked here.")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin != f"{scope.get('scheme', 'http')}://{host}":
            return refused(403, "another site may not ask this server.")
        visited = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if site is not None and site not in _OWN and not (visited and headers.get("sec-fetch-dest") == "document"):
            return refused(403, "another site may not ask this server.")
        if scope["method"] == "POST":
            if not headers.get("content-type", "").lower().startswith("application/json"):
                return refused(415, "what is sent here is JSON.")
            length = headers.get("content-length", "0")
            if not re.fullmatch(r"[0-9]{1,12}", length) or int(length) > self._most:
                return refused(413, f"at most {self._most} bytes are taken.")
        return None

    def _entrance(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """Nothing where the token is in a cookie; where it is in the address, the way to that page with a cookie."""
        if self._token is None:
            return None
        cookie = f"misdetect-{(scope.get('server') or ('', 0))[1]}"
        if _same(_cookies(headers.get("cookie", "")).get(cookie, ""), self._token):
            return None
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] in _READING and _same(dict(asked).get("token", ""), self._token):
            rest = urlencode([pair for pair in asked if pair[0] != "token"])
            path = "/" + scope["path"].lstrip("/\\")  # "//name" would be another host
            found = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            found.set_cookie(cookie, self._token, httponly=True, samesite="lax", path="/")
            return found
        return refused(401, "this server asks for the token that is in the address it printed.")


def refused(code: int, sentence: str) -> Response:
    """An answer that is no more than why not."""
    return JSONResponse({"error": sentence}, code, {"cache-control": "no-store"})


def _name(host: str) -> str:
    """A ``Host`` without its port."""
    return re.sub(r":[0-9]*$", "", host).lower()


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _cookies(text: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(text).items()}
    except CookieError:
        return {}


def _with(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    known = {name.lower() for name, _ in headers}
    more = {"cache-control": "no-store", **HEADERS}
    return [*headers, *((k.encode(), v.encode()) for k, v in more.items() if k.encode() not in known)]


class TooLarge(Exception):
    """A body has more bytes than it said it would."""


def _bounded(receive: Receive, most: int) -> Receive:
    """``receive`` that fails when the body has more than ``most`` bytes."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > most:
                raise TooLarge(f"at most {most} bytes are taken.")
        return message

    return bounded
