"""The ASGI application of the control address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pocketmq.cluster.control_address.declarations import OPERATIONS, Operation, Readiness
from pocketmq.cluster.control_address.declared_documents import (
    EVENTS,
    METRICS,
    OPENAPI,
)
from pocketmq.cluster.control_address.event_feed import event_feed
from pocketmq.cluster.control_address.openapi import document
from pocketmq.cluster.control_address.operations import Operations
from pocketmq.cluster.http_server.guard import (
    Endpoint,
    Guard,
    RefusedError,
    json_answer,
    no_such_request,
)
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.watch_page.routes import live_routes, page_routes
from pocketmq.runtime.errors import CallerError

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Maximum bytes of a request's body; a seed file may be large."""


def make_app(control: ClusterControl, guard: Guard) -> Starlette:
    """Make the application of one cluster.

    Args:
        control: The cluster.
        guard: Checks each request.
    """
    operations = Operations(control)
    routes = [
        Route(
            each.path,
            guard(_endpoint(operations, each), needs_super_user=each.needs_super_user),
            methods=[each.method],
        )
        for each in OPERATIONS
    ]
    routes.append(Route(OPENAPI.path, guard(_openapi), methods=["GET"]))

    async def metrics(_request: Request) -> Response:
        from pocketmq.cluster.control_address.metrics import metrics_text  # loads prometheus_client

        return Response(await metrics_text(control), media_type=METRICS.content_type)

    routes.append(Route(METRICS.path, guard(metrics), methods=["GET"]))

    async def events(_request: Request) -> Response:
        feed = event_feed(control.events)
        return StreamingResponse(feed, media_type=EVENTS.content_type)

    routes.append(Route(EVENTS.path, guard(events), methods=["GET"]))
    return Starlette(
        routes=[*routes, *page_routes(guard), *live_routes(control, guard)],
        exception_handlers={HTTPException: no_such_request},
    )


def _endpoint(operations: Operations, operation: Operation) -> Endpoint:
    does: Callable[..., Awaitable[Any]] = getattr(operations, operation.name)

    async def endpoint(request: Request) -> Response:
        parameters = {**request.query_params, **request.path_params}
        known = {each.name for each in operation.parameters}
        # Before the operation runs, so that a misspelt parameter does not change what it does.
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
                # An empty body means all defaults, so that plain `curl -X POST` works.
                question = msgspec.json.decode(body or b"{}", type=operation.question)
            except msgspec.DecodeError as exc:
                raise CallerError(
                    f"the request's body is not valid for {request.url.path}: {exc}"
                ) from exc
            answer = await does(parameters, question)
        # The status shows it too, as container probes look at nothing else.
        unready = isinstance(answer, Readiness) and not answer.ready
        return json_answer(answer, 503 if unready else 200)

    return endpoint


async def _openapi(_request: Request) -> Response:
    try:
        version = version_of("pocketmq")
    # PocketMQ runs from its source folder and is not installed.
    except PackageNotFoundError:
        version = "unknown"
    return json_answer(document(version), 200)


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    # Counted as it arrives: the length header may lie, or be missing with chunks.
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise RefusedError(413, f"the body is longer than {MAX_BODY_BYTES} bytes; send less")
        parts.append(part)
    return b"".join(parts)
