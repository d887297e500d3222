"""`python -m pocketmq.proxy`: one gRPC proxy as a process."""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly

if __name__ == "__main__":
    end_quietly()  # until run_role handles signals itself

from pocketmq.operation.role_process import RoleCommand, run_command, seams_of

import sys  # isort: skip
from collections.abc import Sequence  # isort: skip
from dataclasses import replace  # isort: skip
from pathlib import Path  # isort: skip

from pocketmq.proxy.config import ProxyConfig
from pocketmq.proxy.installed import check_installed
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.errors import DiskError, EnvironmentFault
from pocketmq.runtime.ports import check_port_free, told_ip
from pocketmq.runtime.process import RoleContext, RoleMain
from pocketmq.runtime.profile import profile_named


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit status."""
    return run_command("proxy", [ProxyConfig], _prepare, arguments)


def use_own_certificate(command: RoleCommand, config: ProxyConfig) -> Path | None:
    """The certificate of `--certificate`, which the ports show from now on.

    It is for this machine's names and addresses, and for the host of `--advertise`.

    Raises:
        MissingToolError: it has to be made, and `cryptography` is not installed.
        DiskError: the folder cannot be written.
    """
    if config.certificate is None:
        return None
    from pocketmq.operation.tls.certificate import kept_certificate

    # The certificate names only what SDKs dial, because they compare its names with that.
    hosts = [told_ip(config.host)]
    if config.advertise:
        hosts.append(split_address(config.advertise)[0])
    folder = config.certificate.expanduser()
    try:
        own = kept_certificate(folder, hosts)
    except OSError as exc:
        raise DiskError(folder, exc.strerror or str(exc), advice="choose another folder") from exc
    # Test mode would make a certificate for this run alone, in place of the one that was just read.
    command.security = replace(
        command.security,
        tls_test_mode_enable=False,
        tls_server_cert_path=own.certificate,
        tls_server_key_path=own.key,
    )
    return own.certificate


def _prepare(command: RoleCommand) -> tuple[str, RoleMain]:
    config = command.config(ProxyConfig)

    async def serve(role: RoleContext) -> None:
        check_installed()
        # Imported after the check: without gRPC this line would fail without saying what to
        # install.
        try:
            from pocketmq.proxy.assembly.proxy import Proxy
        except ImportError as exc:
            raise EnvironmentFault(
                f"gRPC cannot be imported: {exc}; run `pip install --force-reinstall "
                "'pocketmq[grpc]'`"
            ) from exc

        # Check the ports before anything is made: if one is taken, no certificate or folder is
        # left.
        check_port_free(config.host, config.port)
        check_port_free(config.host, config.grpc_port)
        shown = use_own_certificate(command, config)
        seams = seams_of(config.name, role, command)
        proxy = Proxy(
            config,
            role.clock,
            seams.network,
            profile_named(command.options.profile),
            budget=command.budget,
            events=seams.events,
            tls=seams.sockets.server_tls,
        )
        async with proxy:
            role.ready(
                port=proxy.port,
                host=told_ip(config.host),
                grpc_port=proxy.grpc_port,
                **({} if shown is None else {"certificate": shown}),
            )
            await role.stopped()

    return config.name, serve


if __name__ == "__main__":
    sys.exit(main())
