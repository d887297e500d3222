"""`docs/client.md` in one session, as somebody who pastes its examples in their order sees it."""

from __future__ import annotations

import ast
import asyncio
import codeop
import contextlib
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

from pocketmq.testing import Cluster, start_cluster

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
LONGEST_ECHO = 1_000
"""Characters that a pasted line may make the interpreter show."""
PRINTS = re.compile(r"print\(.*\)  # (.*)$", re.MULTILINE)


async def keep_time_going(cluster: Cluster) -> None:
    """Manual time at ten times the pace of real time, so that a retry after 10 s takes one.

    Clients send heartbeats by real time, every 30 s, and brokers forget them after 120 s of manual
    time. Without a pace a slow machine had a broker forget who waits for a reply.
    """
    while True:
        await cluster.advance(0.25)
        await asyncio.sleep(0.025)  # noqa: TID251 - the pace is what is wanted


def statements(block: str) -> list[types.CodeType]:
    """What `python -m asyncio` makes of a block that is pasted, line by line.

    A blank line ends a statement there, also one whose indented lines go on behind it.
    """
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    found: list[types.CodeType] = []
    lines: list[str] = []
    for line in [*block.splitlines(), ""]:
        lines.append(line)
        code = compiler("\n".join(lines), str(PAGE), "single")
        if code is not None:
            found.append(code)
            lines.clear()
    assert not lines, f"unfinished: {lines}"
    return found


async def run(block: str, session: dict[str, Any], echoed: list[str]) -> list[str]:
    """Paste a block into `python -m asyncio`; the lines that it prints.

    Args:
        block: An example.
        session: Its variables.
        echoed: Gets what calls return, as the interpreter shows it.
    """
    printed: list[str] = []
    session["print"] = lambda *values: printed.append(" ".join(map(str, values)))

    def show(value: object) -> None:
        if value is not None:
            echoed.append(repr(value))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.displayhook", show)
        for code in statements(block):
            found = types.FunctionType(code, session)()
            if inspect.isawaitable(found):
                await found
    return printed


def in_a_loop(block: str, session: dict[str, Any], echoed: list[str]) -> list[str]:
    return asyncio.run(run(block, session, echoed))


async def test_every_example_prints_what_its_comments_say() -> None:
    assert len(BLOCKS) == 9
    echoed: list[str] = []
    with start_cluster(clock="manual") as cluster:
        session: dict[str, Any] = {"__name__": "__main__"}
        for block in BLOCKS:
            typed = block.replace("127.0.0.1:9876", cluster.nameservers)
            time = asyncio.create_task(keep_time_going(cluster))
            try:
                if "pocketmq.client.sync import" in block:  # it blocks its loop, as scripts do
                    example = asyncio.create_task(
                        asyncio.to_thread(in_a_loop, typed, session, echoed)
                    )
                else:
                    example = asyncio.create_task(run(typed, session, echoed))
                await asyncio.wait({example, time}, return_when=asyncio.FIRST_COMPLETED)
                if time.done():
                    await time  # it has failed, and the example would wait for ever
                printed = await example
                assert printed == PRINTS.findall(block), block
            finally:
                time.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await time
    assert max(map(len, echoed)) < LONGEST_ECHO


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_example_can_be_pasted(number: int) -> None:
    assert statements(BLOCKS[number])


def test_the_page_is_short_enough_to_be_read() -> None:
    assert len(PAGE.read_bytes()) <= 12 * 1024


@pytest.mark.parametrize("page", ["README.md", "client/README.md", "docs/index.md"])
def test_other_pages_lead_there(page: str) -> None:
    assert "client.md)" in (PAGE.parents[1] / page).read_text(encoding="utf-8")
