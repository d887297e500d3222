"""The ASGI application of the control address: access checks, answers and errors.

A web page in the user's browser must not be able to steer the cluster. So a request is answered
only if its `Host` is this address (which prevents DNS rebinding), its `Origin`, if any, is this
address too, and, where the port is open to other machines, it has the token.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pocketmq.cluster.control_address.declarations import OPERATIONS, Operation, Problem, Readiness
from pocketmq.cluster.control_address.event_feed import event_feed
from pocketmq.cluster.control_address.metrics import metrics_text
from pocketmq.cluster.control_address.openapi import document
from pocketmq.cluster.control_address.operations import Operations
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.runtime.errors import CallerError, PocketMQError

log = structlog.get_logger()

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Maximum bytes of a request's body; a seed file may be large."""

LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

Endpoint = Callable[[Request], Awaitable[Response]]


class RefusedError(CallerError):
    """The request failed an access check; it was not executed."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


def make_app(control: ClusterControl, *, names: frozenset[str], token: str | None) -> Starlette:
    """Make the application of one cluster.

    Args:
        control: The cluster.
        names: Allowed values of `Host`, without the port.
        token: Required as `Authorization: Bearer ...`; None for no token.
    """
    operations = Operations(control)
    guard = _Guard(names, token)
    routes = [
        Route(each.path, guard(_endpoint(operations, each)), methods=[each.method])
        for each in OPERATIONS
    ]
    routes.append(Route("/openapi.json", guard(_openapi), methods=["GET"]))

    async def metrics(_request: Request) -> Response:
        return Response(await metrics_text(control), media_type="text/plain; version=0.0.4")

    routes.append(Route("/metrics", guard(metrics), methods=["GET"]))

    async def events(_request: Request) -> Response:
        feed = event_feed(control.events)
        return StreamingResponse(feed, media_type="text/event-stream")

    routes.append(Route("/events", guard(events), methods=["GET"]))
    return Starlette(routes=routes)


def _endpoint(operations: Operations, operation: Operation) -> Endpoint:
    does: Callable[..., Awaitable[Any]] = getattr(operations, operation.name)

    async def endpoint(request: Request) -> Response:
        parameters = {**request.query_params, **request.path_params}
        known = {each.name for each in operation.parameters}
        for each in operation.parameters:
            if each.required and each.name not in parameters:
                raise CallerError(f"parameter {each.name} is missing: {each.meaning}")
        if unknown := sorted(parameters.keys() - known):
            raise CallerError(f"unknown parameter {', '.join(unknown)}")
        if operation.question is None:
            answer = await does(parameters)
        else:
            body = await _body(request)
            try:
                question = msgspec.json.decode(body or b"{}", type=operation.question)
            except msgspec.DecodeError as exc:
                raise CallerError(f"the body is not as {request.url.path} wants it: {exc}") from exc
            answer = await does(parameters, question)
        unready = isinstance(answer, Readiness) and not answer.ready
        return _json(answer, 503 if unready else 200)

    return endpoint


async def _openapi(_request: Request) -> Response:
    try:
        version = version_of("pocketmq")
    except PackageNotFoundError:
        version = "unknown"
    return _json(document(version), 200)


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise RefusedError(413, f"the body is longer than {MAX_BODY_BYTES} bytes; send less")
        parts.append(part)
    return b"".join(parts)


class _Guard:
    """Checks access, and turns errors into answers."""

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
            except Exception as exc:
                log.exception("control.failed", path=request.url.path)
                return _problem(exc, 500)

        return guarded

    def _check(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if _without_port(host) not in self._names:
            raise RefusedError(403, f"host {host!r} is not this address; ask 127.0.0.1")
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise RefusedError(403, f"pages of {origin} may not steer this cluster")
        if self._token is not None:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                raise RefusedError(401, "send the token that `pocketmq up` printed, as Bearer")


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _problem(error: BaseException, status: int) -> Response:
    return _json(Problem(str(error) or type(error).__name__), status)


def _json(answer: object, status: int) -> Response:
    return Response(msgspec.json.encode(answer), status, media_type="application/json")
