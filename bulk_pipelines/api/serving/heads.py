"""HEAD wherever there is GET (RFC 9110). The description of the API names HEAD only where it says something of its own:
everywhere else it is GET without its body."""

from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Answered(Exception):
    """Raised into whoever makes an answer to HEAD when its head is sent, so that no body is made."""


class Headed:
    """The application, which answers HEAD as GET, up to the end of the head."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or not is_got(scope):
            await self.app(scope, receive, send)
            return
        got = {**scope, "method": "GET"}
        sent = False

        async def send_head(message: Message) -> None:
            nonlocal sent
            if not sent:
                sent = True
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            raise Answered

        try:
            await self.app(got, receive, send_head)
        except Answered:
            pass
        finally:
            scope["route"] = got.get("route")


def is_got(scope: Scope) -> bool:
    """Whether the address has GET, and no HEAD of its own."""
    routes = scope["app"].router.routes
    if any(each.matches(scope)[0] is Match.FULL for each in routes if not isinstance(each, Mount)):
        return False
    return any(each.matches({**scope, "method": "GET"})[0] is Match.FULL for each in routes)
