"""A tiny application of the playground and the front end's files, under a policy that allows nothing but its own."""

from importlib.resources import files

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

POLICY = "; ".join(
    f"{name} {value}"
    for name, value in {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }.items()
)
FRONT = {path.name: path for path in (files("misdetect.drawing") / "front").iterdir()}
KINDS = {"js": "text/javascript", "css": "text/css"}


def front(request):
    name = request.path_params["name"]
    return Response(FRONT[name].read_bytes(), media_type=KINDS[name.rpartition(".")[2]])


class Guarded:
    """Puts the policy on every answer; what was asked, and the status of the answer, is in ``asked``."""

    def __init__(self, app):
        self.app, self.asked = app, []

    async def __call__(self, scope, receive, send):
        async def sending(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
                self.asked.append((scope["path"], message["status"]))
            await send(message)

        await self.app(scope, receive, sending)


def application(playground):
    """The playground as an ASGI application."""
    return Guarded(Starlette(routes=[*playground.routes(), Route("/front/{name}", front)]))
