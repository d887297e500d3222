"""`python -m pocketmq.cluster.forking.server SOCKET PARENT MODULES`: a fork server.

It imports what the roles need, one module after the other, and between two of them looks whether
somebody asks for a role. It has no loop, no thread and no listening socket, so that a fork of it is
as good as a new interpreter. A role is forked twice; the process in between ends at once, and the
role becomes a child of the process that asked, which had itself made the parent of orphans for
that moment (`adoption.py`). So its exit status, its signals and `--exit-with-parent` are those of
a role that was executed, and nothing depends on the fork server any more.

    asker                 fork server                 in between          role
      | request, sockets     |                            |                 |
      |--------------------->| fork --------------------->| fork ---------->| waits
      |                      |            pid of the role |                 |
      |                      |<---------------------------| ends            |
      | pid                  |                                              |
      |<---------------------|                                              |
      | go, or closes the socket: then the role ends                        |
      |-------------------------------------------------------------------->| runs

It ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import socket
import sys
import time
from collections.abc import Iterator, Sequence

from pocketmq.cluster.forking.command_line import show_command_line
from pocketmq.cluster.forking.request import (
    IMPORTS,
    MOST_BYTES,
    OPTIONAL,
    ForkRefusedError,
    ForkRequest,
)
from pocketmq.runtime.interrupts import end_quietly

_FDS = 3
"""Travel with a request: the answering socket, standard output, standard error."""


def main(words: Sequence[str]) -> int:
    """Serve until the parent is gone; in a forked process, its role's exit status."""
    # Its arguments include padding for later command lines, which `ps` would show.
    show_command_line([sys.executable, "-m", "pocketmq.cluster.forking.server"])
    gc.disable()  # nothing that is imported becomes garbage
    number, parent_pid, modules, _room = words
    # In the order in which roles are requested, the nameserver first.
    ahead = [each for role in modules.split(",") for each in IMPORTS[role]]
    with socket.socket(fileno=int(number)) as asked, _process(int(parent_pid)) as parent:
        role = _serve(asked, parent, ahead)
    return 0 if role is None else _run(role)


def _serve(asked: socket.socket, parent: int, ahead: list[str]) -> ForkRequest | None:
    """Answer requests; returns in each forked process with its request, in the server with None."""
    while True:
        # While something is left to import, it does not wait for requests.
        readable, _, _ = select.select([asked.fileno(), parent], [], [], 0 if ahead else None)
        # The parent's death is checked first: nobody would wait for a role that is forked then.
        if parent in readable:
            return None
        if asked.fileno() in readable:
            data, fds, flags, _ = socket.recv_fds(asked, MOST_BYTES, _FDS)
            if not data:
                return None
            role = None
            # A truncated request, or one without its descriptors, cannot be answered.
            if len(fds) == _FDS and not flags & socket.MSG_TRUNC:
                role = _answer(data, fds)
            # In the role too: it has its own copies, and the answering socket must end with its
            # asker.
            for each in fds:
                os.close(each)
            if role is not None:
                return role
        elif ahead:
            with contextlib.suppress(ImportError):  # who asks for it is told
                importlib.import_module(ahead.pop(0))


def _answer(data: bytes, fds: list[int]) -> ForkRequest | None:
    """Fork what is asked for; returns in the role with its request."""
    # A copy, as the caller closes the received descriptors in any case.
    told = socket.socket(fileno=os.dup(fds[0]))
    with told:
        try:
            request = ForkRequest.decode(data)
            # Loaded before the fork, so that the next role of this kind finds the modules loaded.
            _load(request.module)
            pid = _fork()
        except (ForkRefusedError, OSError, ValueError, KeyError, TypeError) as exc:
            with contextlib.suppress(OSError):
                told.send(f"refused {exc!r}".encode())
            return None
        if pid:
            with contextlib.suppress(OSError):  # it asks no more: the role will see that too
                told.send(str(pid).encode())
            return None
        # The asker first checks that the role has become its child, and may still give it up.
        if told.recv(8) == b"":
            os._exit(0)  # whoever asked has given up
    nothing = os.open(os.devnull, os.O_RDONLY)
    # Standard input, output and error, in this order.
    for target, source in enumerate((nothing, *fds[1:])):
        os.dup2(source, target)
    os.close(nothing)
    return request


def _load(module: str) -> None:
    for each in IMPORTS[module]:
        try:
            importlib.import_module(each)
        # Any exception: a broken package must fail this fork, not end the server.
        except Exception as exc:
            if each not in OPTIONAL:
                raise ForkRefusedError(f"{each} cannot be imported: {exc!r}") from exc
    # A fork copies only the calling thread, so locks of others would stay locked in the role.
    if len(os.listdir("/proc/self/task")) > 1:
        raise ForkRefusedError(
            "an imported module has started a thread, so this process cannot be forked"
        )


def _fork() -> int:
    """Fork a process whose parent is not this one: its pid; in itself 0."""
    gc.freeze()  # its garbage collector shall not touch, and so copy, what it shares with us
    # Only the process in between knows the role's pid, and passes it through this pipe.
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as read_end, os.fdopen(writing, "wb", 0) as write_end:
        between = os.fork()
        if between == 0:
            role = -1
            try:
                role = os.fork()
                if role:
                    write_end.write(str(role).encode())
            # This process must never return into the server's loop.
            finally:
                if role:
                    os._exit(0)
            os.setsid()  # Ctrl-C at the terminal is for the supervisor alone
            return 0
        os.waitpid(between, 0)  # from now on the role's parent is the one that asked
        write_end.close()
        # Empty if the second fork failed, which raises a `ValueError`.
        return int(read_end.read())


def _run(request: ForkRequest) -> int:
    """Run a role in this process, as `python -m` would; its exit status."""
    os.chdir(request.folder)
    # Replaced by the requested ones, since the caller's may have changed after the server's start.
    os.environ.clear()
    os.environ.update(request.env)
    # The C library reads TZ only once.
    time.tzset()
    shown = importlib.import_module(f"{request.module}.__main__")
    sys.argv = [str(shown.__file__), *request.arguments]
    show_command_line([sys.executable, "-m", request.module, *request.arguments])
    # Frozen objects stay excluded; the role's own garbage is collected again.
    gc.enable()
    end_quietly()  # until run_role hears signals itself
    status: int = shown.main(request.arguments)
    return status


@contextlib.contextmanager
def _process(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when this process has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
