"""Access checks of the ports over HTTP, and errors as answers.

A web page in the user's browser must not be able to steer the cluster. So a request is answered
only if its `Host` is this address (which prevents DNS rebinding) and its `Origin`, if any, is this
address too. Where the port is open to other machines it needs the token, which no other page
knows, and may then name this machine as it likes. Our own page is opened once with the token in its
address, and has it in a cookie from then on, which browsers send with no request of another site.

Where brokers check who asks, what changes the cluster or shows messages also needs a super user of
theirs, as HTTP's Basic authentication. The token then comes in the cookie.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pocketmq.cluster.http_server.problem import TOKEN_COOKIE, Problem
from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.errors import CallerError, PocketMQError

log = structlog.get_logger()

PAGE = "/watch"
"""The one address that takes the token as `?token=`."""

LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

Endpoint = Callable[[Request], Awaitable[Response]]

IsSuper = Callable[[Credentials], Awaitable[bool]]
"""Whether a name and password are those of a super user."""

_BASIC = "Basic "


class RefusedError(CallerError):
    """The request failed an access check; it was not executed."""

    headers: ClassVar[Mapping[str, str]] = {}
    """Of the answer."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


class UserNeededError(RefusedError):
    """It needs a super user, and was sent by nobody who is one."""

    headers: ClassVar[Mapping[str, str]] = {
        "WWW-Authenticate": 'Basic realm="PocketMQ: a super user of the brokers"'
    }

    def __init__(self, reason: str) -> None:
        super().__init__(401, reason)


class Guard:
    """Checks access, and turns errors into answers.

    Args:
        names: Allowed values of `Host`, without the port.
        token: Required as `Authorization: Bearer ...` or as a cookie; None for no token.
        is_super: Asked about who sends what needs a super user; None where nothing does.
    """

    def __init__(
        self, names: frozenset[str], token: str | None, is_super: IsSuper | None = None
    ) -> None:
        self._names = names
        self._token = token
        self._is_super = is_super

    def __call__(self, endpoint: Endpoint, *, needs_super_user: bool = False) -> Endpoint:
        """Check each request before the endpoint gets it.

        Args:
            endpoint: Answers what passes.
            needs_super_user: It changes the cluster or shows messages.
        """

        async def answered(request: Request) -> Response:
            try:
                # The address is checked first: who may not ask at all learns nothing about users.
                self._check(request)
                if needs_super_user and self._is_super is not None:
                    await self._check_user(request, self._is_super)
                return await endpoint(request)
            except RefusedError as exc:
                answer = _problem(exc, exc.status)
                answer.headers.update(exc.headers)
                return answer
            # Refusals have their own status; other mistakes of the caller are 400.
            except CallerError as exc:
                return _problem(exc, 400)
            # 502, as for a gateway: the cluster behind did not answer as it should, which is not
            # the caller's fault.
            except (NotReachedError, PocketMQError) as exc:
                return _problem(exc, 502)
            except ClientDisconnect as exc:  # in the middle of its body; nobody reads the answer
                return _problem(exc, 400)
            # Any other error is a defect: its traceback is logged, and only its message is sent.
            except Exception as exc:
                log.exception("control.failed", path=request.url.path)
                return _problem(exc, 500)

        async def guarded(request: Request) -> Response:
            answer = await answered(request)
            # What clients chose stands in it: a browser must not take it for a page.
            answer.headers["X-Content-Type-Options"] = "nosniff"
            return answer

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
        # Another site's page may reach this port through a name of its own (DNS rebinding).
        if self._token is None and _without_port(host) not in self._names:
            raise RefusedError(
                403,
                f"the request names the host {host!r}, which this server does not accept; use "
                "the host 127.0.0.1",
            )
        origin = request.headers.get("origin")
        # Only the address counts, not the scheme: the page must come from the same host and port.
        if origin is not None and origin.partition("://")[2] != host:
            raise RefusedError(
                403,
                f"web pages of {origin} may not control this cluster; use the cluster's own page",
            )
        if self._token is not None:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            # That header may hold the user, and then the token is in the cookie.
            if not given or given.startswith(_BASIC):
                given = request.cookies.get(TOKEN_COOKIE, "")
            # Only for this page: a token in other addresses would get into logs and links.
            if request.method == "GET" and request.url.path == PAGE:
                given = request.query_params.get("token", given)
            # In constant time, so that the token cannot be guessed letter by letter.
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                raise RefusedError(
                    401,
                    "the token is missing or wrong; send the token that `pocketmq up` printed, in "
                    "the header Authorization: Bearer TOKEN",
                )

    async def _check_user(self, request: Request, is_super: IsSuper) -> None:
        given = _user_of(request)
        if given is None:
            raise UserNeededError(
                "the brokers check users, so this request needs a super user; give its name and "
                "password, as with curl -u"
            )
        if not await is_super(given):
            raise UserNeededError(
                f"{given.access_key} is not a super user of the brokers, or the password is "
                "wrong; give the name and password of a super user"
            )


def _user_of(request: Request) -> Credentials | None:
    """Name and password of HTTP's Basic authentication (RFC 7617)."""
    header = request.headers.get("authorization", "")
    if not header.startswith(_BASIC):
        return None
    # Strict: text that is no base64 must not be shortened to another name.
    try:
        text = base64.b64decode(header.removeprefix(_BASIC), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    name, _, password = text.partition(":")
    return Credentials(name, password) if name and password else None


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    # An IPv6 address in brackets has colons too, but none before digits alone.
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
