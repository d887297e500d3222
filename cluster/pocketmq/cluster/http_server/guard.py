"""Access checks of the ports over HTTP, and errors as answers.

A web page in the user's browser must not be able to steer the cluster. So a request is answered
only if its `Host` is this address (which prevents DNS rebinding) and its `Origin`, if any, is this
address too. Where the port is open to other machines it needs the token, which no other page
knows, and may then name this machine as it likes. Our own page is opened once with the token in its
address, and has it in a cookie from then on, which browsers send with no request of another site.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pocketmq.cluster.http_server.problem import Problem
from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.runtime.errors import CallerError, PocketMQError

log = structlog.get_logger()

PAGE = "/watch"
"""The one address that takes the token as `?token=`."""

TOKEN_COOKIE = "pocketmq_token"  # noqa: S105 - its name

LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

Endpoint = Callable[[Request], Awaitable[Response]]


class RefusedError(CallerError):
    """The request failed an access check; it was not executed."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


class Guard:
    """Checks access, and turns errors into answers.

    Args:
        names: Allowed values of `Host`, without the port.
        token: Required as `Authorization: Bearer ...`; None for no token.
    """

    def __init__(self, names: frozenset[str], token: str | None) -> None:
        self._names = names
        self._token = token

    def __call__(self, endpoint: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> Response:
            try:
                self._check(request)
                return await endpoint(request)
            except RefusedError as exc:
                return _problem(exc, exc.status)
            except CallerError as exc:
                return _problem(exc, 400)
            except (NotReachedError, PocketMQError) as exc:
                return _problem(exc, 502)
            except ClientDisconnect as exc:  # in the middle of its body; nobody reads the answer
                return _problem(exc, 400)
            except Exception as exc:
                log.exception("control.failed", path=request.url.path)
                return _problem(exc, 500)

        return guarded

    @property
    def needs_token(self) -> bool:
        """Whether only who has the token passes."""
        return self._token is not None

    def knows(self, request: Request) -> bool:
        """Whether a request passes the access check; all of that stands in its head."""
        try:
            self._check(request)
        except RefusedError:
            return False
        return True

    def _check(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if self._token is None and _without_port(host) not in self._names:
            raise RefusedError(403, f"host {host!r} is not this address; ask 127.0.0.1")
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise RefusedError(403, f"pages of {origin} may not steer this cluster")
        if self._token is not None:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not given:
                given = request.cookies.get(TOKEN_COOKIE, "")
            if request.method == "GET" and request.url.path == PAGE:
                given = request.query_params.get("token", given)
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                raise RefusedError(401, "send the token that `pocketmq up` printed, as Bearer")


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _problem(error: BaseException, status: int) -> Response:
    return json_answer(Problem(str(error) or type(error).__name__), status)


async def no_such_request(request: Request, exc: Exception) -> Response:
    """The answer where no operation has this path, or none with this method."""
    status = exc.status_code if isinstance(exc, HTTPException) else 404
    asked = f"{request.method} {request.url.path}"
    answer = Problem(f"there is no {asked}; GET /openapi.json lists what can be asked")
    return json_answer(answer, status)


def json_answer(answer: object, status: int = 200) -> Response:
    """A structure as JSON."""
    return Response(msgspec.json.encode(answer), status, media_type="application/json")
