"""The gRPC server: every RPC under its name, and what RocketMQ's proxy does not answer.

Why grpc.aio: docs/grpc.md. One server belongs to the loop that started it; several may live in one
process, each in its loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
import structlog

from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.proxy.codes.refusals import Refusal, status_of
from pocketmq.proxy.edge.callers import Caller
from pocketmq.proxy.edge.guard import Guard
from pocketmq.proxy.edge.telemetry import Telemetry
from pocketmq.proxy.edge.tools import tool_handlers
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import Code
from pocketmq.proxy.protos.shapes import ANSWERED_BY_STREAM, PACKAGE, SERVICE, UNARY
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

MAX_OVER_BYTES: Final = 16 * 1024 * 1024
"""Above the largest body, up to which gRPC receives a message, so that its sender is told that it
is too large; a longer one ends its call (RESOURCE_EXHAUSTED). RocketMQ's proxy receives 130 MiB
(G-10), which each of 10,000 streams of a hostile peer could have half of it keep."""

OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # else a second server takes half of the connections, unnoticed
    ("grpc.keepalive_permit_without_calls", 1),  # Java and C++ ping so (G-10)
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 0),
    # Calls that wait until this process looks at them: above 1,000, gRPC's default, it cancels
    # calls of anybody, so that one peer's flood would end others' calls.
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 40_000),
    ("grpc.max_connection_idle_ms", 120_000),  # G-10
)

Unary: TypeAlias = Callable[[Caller, Any], Awaitable[Any]]
"""An RPC with one request and one answer; it raises `Refusal` and other `PocketMQError`s."""

Receive: TypeAlias = Callable[[Any, Any], Awaitable[None]]
"""Gets a request, or the `Refusal` of one, and gRPC's context, into which it writes its answers."""


class GrpcServer:
    """Listens, and answers by the RPCs that it is given.

    Args:
        unary: RPC name -> what answers it.
        telemetry: Answers the stream of commands.
        receive: Answers ReceiveMessage, message by message; it asks the guard itself.
        guard: Checks each call of the first.
        max_message_size: Largest body that an SDK may send.
        budget: What SDKs may cost.
    """

    def __init__(
        self,
        unary: Mapping[str, Unary],
        telemetry: Telemetry,
        receive: Receive,
        guard: Guard,
        max_message_size: int,
        budget: Budget = DEFAULT_BUDGET,
    ) -> None:
        # Requests are bounded: 4 MiB of empty entries take 0.4 s to read.
        longest = budget.grpc_request_bytes
        most = {"SendMessage": longest + max_message_size}
        self._handlers = {
            name: _unary(name, answer, guard, most.get(name, longest))
            for name, answer in unary.items()
        }
        # RPCs without a handler are named, too: gRPC's own refusal has another text, and no RPC in
        # it.
        for name in (*UNARY, *ANSWERED_BY_STREAM):
            self._handlers.setdefault(name, _unanswered(name))
        self._handlers["Telemetry"] = grpc.stream_stream_rpc_method_handler(
            telemetry.telemetry,
            request_deserializer=_reader(pb.TelemetryCommand, budget.grpc_command_bytes),
            response_serializer=pb.TelemetryCommand.SerializeToString,
        )
        self._handlers["ReceiveMessage"] = grpc.unary_stream_rpc_method_handler(
            receive,
            request_deserializer=_reader(pb.ReceiveMessageRequest, longest),
            response_serializer=pb.ReceiveMessageResponse.SerializeToString,
        )
        self._most_calls = budget.grpc_calls
        self._options = (
            *OPTIONS,
            ("grpc.max_concurrent_streams", budget.grpc_calls_per_connection),
            # The two are equal, because gRPC refuses at random between them.
            ("grpc.max_metadata_size", budget.grpc_metadata_bytes),
            ("grpc.absolute_max_metadata_size", budget.grpc_metadata_bytes),
            ("grpc.max_receive_message_length", max_message_size + MAX_OVER_BYTES),
        )
        self._server: Any = None

    async def start(self, address: str) -> None:
        """Listen at a Unix socket, `unix:/path`, behind the `Front`."""
        server = grpc.aio.server(options=self._options, maximum_concurrent_rpcs=self._most_calls)
        service = grpc.method_handlers_generic_handler(f"{PACKAGE}.{SERVICE}", self._handlers)
        server.add_generic_rpc_handlers((service, *tool_handlers()))
        # Plaintext, as the front has ended TLS, and nobody else can enter the folder.
        server.add_insecure_port(address)
        await server.start()
        self._server = server

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and end those that are open after a while; may be called twice."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace_s)


def _unanswered(name: str) -> Any:
    """Says what gRPC for Java says of an RPC that nobody answers."""

    async def refuse(_request: bytes, context: Any) -> None:
        await context.abort(
            grpc.StatusCode.UNIMPLEMENTED, f"Method {PACKAGE}.{SERVICE}/{name} is unimplemented"
        )

    return grpc.unary_unary_rpc_method_handler(refuse)


def _reader(message_class: Any, most: int) -> Callable[[bytes], Any]:
    """Reads a request; what is too large becomes a `Refusal`, which the RPC raises."""

    def read(data: bytes) -> Any:
        # Checked here, before the request is parsed; a deserializer that raises would end the call
        # with gRPC's own status.
        if len(data) > most:
            return Refusal(
                Code.PAYLOAD_TOO_LARGE, f"the request has {len(data)} bytes, max is {most}"
            )
        return message_class.FromString(data)

    return read


def _unary(name: str, answer: Unary, guard: Guard, most: int) -> Any:
    request_class = getattr(pb, f"{name}Request")
    response_class = getattr(pb, f"{name}Response")

    async def handle(request: Any, context: Any) -> Any:
        try:
            if isinstance(request, Refusal):
                raise request
            await guard.check(context, request)
            return await answer(Caller.of(context), request)
        # A client that hangs up; gRPC ends the call itself.
        except asyncio.CancelledError:
            raise
        except PocketMQError as exc:
            return response_class(status=status_of(exc))
        # SDKs take gRPC's UNKNOWN for a broken connection; a status tells them what happened (G-1).
        except Exception as exc:
            log.exception("proxy.call_failed", rpc=name)
            return response_class(status=status_of(exc))

    return grpc.unary_unary_rpc_method_handler(
        handle,
        request_deserializer=_reader(request_class, most),
        response_serializer=response_class.SerializeToString,
    )
