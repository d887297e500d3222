"""`python -m pocketmq.proxy`: one gRPC proxy as a process."""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly

if __name__ == "__main__":
    end_quietly()  # until run_role handles signals itself

from pocketmq.operation.role_process import RoleCommand, run_command, seams_of

import sys  # isort: skip
from collections.abc import Sequence  # isort: skip
from importlib.util import find_spec  # isort: skip

from pocketmq.proxy.config import ProxyConfig
from pocketmq.runtime.errors import MissingToolError
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.process import RoleContext, RoleMain
from pocketmq.runtime.profile import profile_named


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    return run_command("proxy", [ProxyConfig], _prepare, arguments)


def check_installed() -> None:
    """Pass if what gRPC needs is there.

    Raises:
        MissingToolError: it is not.
    """
    for package in ("grpc", "google.protobuf"):
        try:
            found = find_spec(package) is not None
        except ModuleNotFoundError:  # `google` is not there
            found = False
        if not found:
            raise MissingToolError("gRPC", "the proxy", "pip install 'pocketmq[grpc]'")


def _prepare(command: RoleCommand) -> tuple[str, RoleMain]:
    config = command.config(ProxyConfig)

    async def serve(role: RoleContext) -> None:
        check_installed()
        from pocketmq.proxy.assembly.proxy import Proxy

        check_port_free(config.host, config.port)
        check_port_free(config.host, config.grpc_port)
        seams = seams_of(config.name, role, command)
        proxy = Proxy(
            config,
            role.clock,
            seams.network,
            profile_named(command.options.profile),
            budget=command.budget,
            events=seams.events,
        )
        async with proxy:
            role.ready(port=proxy.port, host=told_ip(config.host), grpc_port=proxy.grpc_port)
            await role.stopped()

    return config.name, serve


if __name__ == "__main__":
    sys.exit(main())
