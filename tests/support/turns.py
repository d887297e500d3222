"""How long a role's loop is busy with one request, whatever the request."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import request_name
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.header import REQUEST_HEADERS
from support.cost import least_and_bound_s, slowest_s
from support.largest import SHAPES, largest

SHAPES_A_TEXT = len(SHAPES) if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 3
TRIES = 25
"""The least of them counts."""


def turn_s(dispatcher: Dispatcher, peer: Any, data: bytes) -> float:
    """Processor seconds of this thread from a request's bytes to those of its answer."""
    began = time.thread_time()
    for request in FrameDecoder(max_header_bytes=dispatcher.budget().header_bytes).feed(data):
        if request.code in dispatcher.batch:
            answer = dispatcher.process_batch([peer], [request])[0]
        else:
            answer = dispatcher.process(peer, request)
        if isinstance(answer, Command):
            b"".join(bytes(part) for part in encode_frame(answer))
    return time.thread_time() - began


def largest_of_each(
    budget: Budget, codes: Iterable[int], known: Mapping[str, object]
) -> Iterator[tuple[str, bytes]]:
    """The largest requests of each code, with what they are."""
    for code in codes:
        for label, command in largest(REQUEST_HEADERS[code], known, budget, SHAPES_A_TEXT):
            what = f"{request_name(code)}, {label}, {command.encoding.name}"
            yield what, b"".join(bytes(part) for part in encode_frame(command))


def too_slow(
    dispatcher: Dispatcher, peer: Any, codes: Iterable[int], known: Mapping[str, object]
) -> tuple[int, list[str]]:
    """Ask the largest of everything; how many requests that were, and which took too long."""
    budget: Budget = dispatcher.budget()
    asked, found = 0, []
    gc.collect()
    gc.disable()
    bound_s = slowest_s()
    try:
        for what, data in largest_of_each(budget, codes, known):
            took_s = turn_s(dispatcher, peer, data)
            asked += 1
            if took_s < bound_s:
                continue
            again_s = partial(turn_s, dispatcher, peer, data)
            took_s, bound_s = least_and_bound_s(took_s, again_s, TRIES)
            if took_s >= bound_s:
                found.append(f"{what}: {took_s * 1000:.0f} ms of {bound_s * 1000:.0f}")
    finally:
        gc.enable()
    return asked, found
