"""Health and server reflection, so that `grpcurl` and load balancers work (G-2).

    $ grpcurl -plaintext 127.0.0.1:8081 list
    apache.rocketmq.v2.MessagingService
    grpc.health.v1.Health
    grpc.reflection.v1.ServerReflection
    grpc.reflection.v1alpha.ServerReflection

Both answer from the proxy's own descriptor pool. gRPC's packages for them would enter theirs in
protobuf's default pool, and be two more packages to install.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
import grpc.aio

from pocketmq.proxy.protos.enums import ServingStatus
from pocketmq.proxy.protos.pool import POOL, message_class
from pocketmq.proxy.protos.shapes import HEALTH, PACKAGE, REFLECTION, SERVICE, TOOL_PACKAGES

MAX_REQUEST_BYTES: Final = 16 * 1024
"""Of a request, which has a name of a service, of a file or of a symbol."""

_SERVICES: Final = (
    f"{PACKAGE}.{SERVICE}",
    *(f"{package}.{found[1]}" for package, found in TOOL_PACKAGES.items()),
)


def tool_handlers() -> list[Any]:
    """What a gRPC server is given."""
    check, answer = _classes(HEALTH, "HealthCheckRequest", "HealthCheckResponse")
    health = Health(answer)
    handlers = [
        grpc.method_handlers_generic_handler(
            f"{HEALTH}.Health",
            {
                "Check": grpc.unary_unary_rpc_method_handler(
                    health.check, _reader(check), answer.SerializeToString
                ),
                "Watch": grpc.unary_stream_rpc_method_handler(
                    health.watch, _reader(check), answer.SerializeToString
                ),
            },
        )
    ]
    # Both versions: older tools ask for v1alpha only.
    for package in REFLECTION:
        request, answer = _classes(package, "ServerReflectionRequest", "ServerReflectionResponse")
        info = grpc.stream_stream_rpc_method_handler(
            Reflection(answer).info, _reader(request), answer.SerializeToString
        )
        handlers.append(
            grpc.method_handlers_generic_handler(
                f"{package}.ServerReflection", {"ServerReflectionInfo": info}
            )
        )
    return handlers


class Health:
    """A proxy that answers at all serves.

    Args:
        answer: Class of its answers.
    """

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def check(self, request: Any, context: Any) -> Any:
        """Whether a service is served; the empty name is the whole server."""
        if request is None or (request.service and request.service not in _SERVICES):
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return self._answer(status=ServingStatus.SERVING)

    async def watch(self, request: Any, context: Any) -> None:
        """The same, and any change of it: there is none until the stream ends."""
        known = request is not None and (not request.service or request.service in _SERVICES)
        status = ServingStatus.SERVING if known else ServingStatus.SERVICE_UNKNOWN
        await context.write(self._answer(status=status))
        # The stream stays open, or a load balancer would take its end for a failure.
        await asyncio.get_running_loop().create_future()


class Reflection:
    """Which services there are, and what their messages look like.

    Args:
        answer: Class of its answers.
    """

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def info(self, requests: AsyncIterator[Any], context: Any) -> None:
        """Answers each request of a stream."""
        async for request in requests:
            await context.write(self._answered(request))

    def _answered(self, request: Any) -> Any:
        answer = self._answer()
        if request is None:
            return _failed(answer, grpc.StatusCode.INVALID_ARGUMENT, "the request is too long")
        answer.valid_host = request.host
        answer.original_request.CopyFrom(request)
        match request.WhichOneof("message_request"):
            case "list_services":
                for name in _SERVICES:
                    answer.list_services_response.service.add(name=name)
            case "file_by_filename":
                return _with_file(answer, POOL.FindFileByName, request.file_by_filename)
            case "file_containing_symbol":
                symbol = request.file_containing_symbol
                return _with_file(answer, POOL.FindFileContainingSymbol, symbol)
            case "all_extension_numbers_of_type":
                name = request.all_extension_numbers_of_type
                answer.all_extension_numbers_response.base_type_name = name
            case _:
                return _failed(answer, grpc.StatusCode.NOT_FOUND, "there are no extensions")
        return answer


def _with_file(answer: Any, find: Callable[[str], Any], name: str) -> Any:
    try:
        file = find(name)
    except KeyError:
        return _failed(answer, grpc.StatusCode.NOT_FOUND, f"{name} is not known")
    # Include the files that it imports: tools would otherwise ask for each by another request.
    files = [file, *file.dependencies]
    answer.file_descriptor_response.file_descriptor_proto.extend(
        [each.serialized_pb for each in files]
    )
    return answer


def _failed(answer: Any, code: grpc.StatusCode, sentence: str) -> Any:
    answer.error_response.error_code = code.value[0]
    answer.error_response.error_message = sentence
    return answer


def _classes(package: str, *names: str) -> tuple[Any, ...]:
    return tuple(message_class(name, package) for name in names)


def _reader(request: Any) -> Callable[[bytes], Any]:
    """Reads a request; None: it is too long to be one."""

    def read(data: bytes) -> Any:
        # A request is copied into its answer, so its length is bounded first.
        return None if len(data) > MAX_REQUEST_BYTES else request.FromString(data)

    return read
