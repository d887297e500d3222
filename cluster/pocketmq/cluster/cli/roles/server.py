"""`pocketmq nameserver`, `controller`, `broker`, `proxy`, `up`: commands that run servers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from pocketmq.cluster.spec import (
    BROKER_MODULE,
    CONTROLLER_MODULE,
    NAMESERVER_MODULE,
    PROXY_MODULE,
    ClusterOptions,
)
from pocketmq.runtime.configuration.config import load, unknown_names
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName

UP_HELP = """Start a whole cluster in the foreground; Ctrl-C stops it.

The command prints the cluster's addresses to standard output. NAMESRV_ADDR=host:port;host:port is
for RocketMQ's clients. POCKETMQ_CONTROL=http://host:port is for `pocketmq ps` and other commands
(docs/control.md). POCKETMQ_PROXY=host:port is for RocketMQ 5's SDKs. The proxy starts only if
pocketmq[grpc] is installed (docs/grpc.md). Without --data, the stores are in a temporary folder,
which the command removes at the end.

\b
Examples:
  pocketmq up
  pocketmq up --nameservers 2 --brokers 2 --data ./cluster
  pocketmq up --any-port --clock manual      then: pocketmq clock advance 126
  pocketmq up --profile 4.9
      as RocketMQ 4.9 behaves; the default is 5.x
  pocketmq up --seed orders.toml             creates topics and messages first
  pocketmq up --wait-ready
      returns when ready; `pocketmq down` stops it
  pocketmq up --config cluster.toml
      tables [cluster], [nameserver], [broker], ...
"""

NAMESERVER_HELP = """Run one nameserver in the foreground (default port 9876).

\b
Examples:
  pocketmq nameserver
  pocketmq nameserver --port 0
      any free port, which the ready line has
  pocketmq nameserver -c namesrv.conf
      with enableControllerInNamesrv=true a controller too
  pocketmq nameserver --help                 every option
"""

CONTROLLER_HELP = """Run one controller in the foreground (default port 9877).

Controllers choose the master of each broker name. When a master dies, the controllers elect another
master. With three controllers, one controller may fail.

\b
Examples:
  pocketmq controller --store-path ./controller
  pocketmq controller --self-id n0 \\
      --peers 'n0-host1:9877;n1-host2:9877;n2-host3:9877'
  pocketmq controller --broker-conf controller.conf
      a RocketMQ properties file
  pocketmq controller --help                 every option
"""

BROKER_HELP = """Run one broker in the foreground (default port 10911).

\b
Examples:
  pocketmq broker --nameservers 127.0.0.1:9876 --data ./store
  pocketmq broker --name broker-b --port 10921 --data ./store-b
  pocketmq broker --broker-conf broker.conf  a RocketMQ properties file
  pocketmq broker --help                     every option
"""

PROXY_HELP = """Run one gRPC proxy in the foreground (default port 8081).

RocketMQ 5's SDKs send gRPC calls to the proxy. The proxy passes them on to brokers of PocketMQ or
RocketMQ. The command needs pocketmq[grpc] (docs/grpc.md).

\b
Examples:
  pocketmq proxy --nameservers 127.0.0.1:9876
  pocketmq proxy --host 0.0.0.0 --grpc-port 18081
  pocketmq proxy --advertise mq.example:8081
      the address in routes, if SDKs cannot use the one they connected to
  pocketmq proxy --certificate ~/mine        certificate.pem is for SDKs that check it
  pocketmq proxy --help                      every option
"""

NAMESERVER_PROCESS = "pocketmq.cluster.nameserver_process"
"""In place of the nameserver's own, where a controller runs beside it."""

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "nameserver", help=NAMESERVER_HELP, context_settings=_PASS_ON, add_help_option=False
    )(nameserver)
    app.command(
        "controller", help=CONTROLLER_HELP, context_settings=_PASS_ON, add_help_option=False
    )(controller)
    app.command("broker", help=BROKER_HELP, context_settings=_PASS_ON, add_help_option=False)(
        broker
    )
    app.command("proxy", help=PROXY_HELP, context_settings=_PASS_ON, add_help_option=False)(proxy)
    app.command("up", help=UP_HELP)(up)


def nameserver(context: typer.Context) -> None:
    from pocketmq.cluster.nameserver_process import wanted

    both = wanted(context.args)
    _become(NAMESERVER_PROCESS if both else NAMESERVER_MODULE, NAMESERVER_HELP, context.args)


def controller(context: typer.Context) -> None:
    _become(CONTROLLER_MODULE, CONTROLLER_HELP, context.args)


def broker(context: typer.Context) -> None:
    _become(BROKER_MODULE, BROKER_HELP, context.args)


def proxy(context: typer.Context) -> None:
    _become(PROXY_MODULE, PROXY_HELP, context.args)


def _become(module: str, help_text: str, arguments: list[str]) -> None:
    """Replace this process by the role's, which loads neither typer nor rich."""
    # The examples come first; the role prints its options after them.
    if "--help" in arguments or "-h" in arguments:
        print(help_text.replace("\b\n", ""), flush=True)
    # `execv` discards what Python has not written yet.
    sys.stdout.flush()
    # The process id stays, so a supervisor that started this command signals the role itself.
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 - no shell


def up(
    nameservers: Annotated[
        int | None, typer.Option(min=1, help="How many nameservers.", show_default="1")
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(min=0, help="How many controllers, for automatic failover.", show_default="0"),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(min=0, help="How many brokers: broker-a, broker-b, ...", show_default="1"),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(min=1, help="Brokers of each name; needs --controllers.", show_default="1"),
    ] = None,
    slaves: Annotated[
        int | None,
        typer.Option(min=0, help="Slaves of each broker, without controllers.", show_default="0"),
    ] = None,
    sync_slaves: Annotated[
        bool | None,
        typer.Option(
            "--sync-slaves", help="Answer a send only when at least one slave has the message."
        ),
    ] = None,
    acting_master: Annotated[
        bool | None,
        typer.Option(
            "--acting-master",
            help="While a broker name has no master, a slave acts as master, read only.",
        ),
    ] = None,
    proxy: Annotated[
        bool | None,
        typer.Option(
            "--proxy/--no-proxy",
            help="Start a gRPC proxy for RocketMQ 5's SDKs, on port 8081 or a free port.",
            show_default="proxy, if pocketmq[grpc] is installed",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on, such as ::1.", show_default="127.0.0.1"),
    ] = None,
    tls: Annotated[
        bool | None,
        typer.Option("--tls", help="All ports of the roles accept only TLS."),
    ] = None,
    members_must_prove: Annotated[
        bool | None,
        typer.Option(
            "--members-must-prove",
            help=(
                "With --tls: nameservers, controllers and replication ports accept requests "
                "only from processes that know the cluster's secret."
            ),
        ),
    ] = None,
    strangers_read_routes: Annotated[
        bool | None,
        typer.Option(
            "--strangers-read-routes",
            help=(
                "With --members-must-prove: clients without the cluster's secret may still "
                "read routes."
            ),
        ),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of users and rules. With this file, brokers check every request.",
        ),
    ] = None,
    any_port: Annotated[
        bool | None,
        typer.Option(
            "--any-port",
            help="Let the system choose ports.",
            show_default="9876, 10911, 10921, ...",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep stores and logs in DIR. DIR/broker-a is a store root."
        ),
    ] = None,
    clock: Annotated[
        Literal["real", "manual"] | None,
        typer.Option(
            help="manual: time moves by `pocketmq clock advance` only.", show_default="real"
        ),
    ] = None,
    profile: Annotated[
        ProfileName | None,
        typer.Option(
            help="RocketMQ release whose rules hold where RocketMQ 4.9 and 5.x differ.",
            show_default=DEFAULT_PROFILE,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="TOML", help="File with options, also for the roles.")
    ] = None,
    control_port: Annotated[
        int | None,
        typer.Option(
            min=-1,
            max=65535,
            help=(
                "Port of the control address. If it is taken, another port is used. -1: no "
                "control address."
            ),
            show_default="9870",
        ),
    ] = None,
    seed: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML or JSON file with topics and messages to create at the start.",
        ),
    ] = None,
    ports_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all addresses here when ready.")
    ] = None,
    events: Annotated[
        bool | None,
        typer.Option(
            "--events",
            help=(
                "Keep events from the start on, so that `pocketmq watch` can show these events "
                "later."
            ),
        ),
    ] = None,
    exit_with_parent: Annotated[
        bool, typer.Option("--exit-with-parent", help="Stop when the parent process has ended.")
    ] = False,
    wait_ready: Annotated[
        bool,
        typer.Option(
            "--wait-ready",
            help="Return when the cluster is ready. The cluster goes on in the background.",
        ),
    ] = False,
) -> int:
    # psutil and more: for this command alone
    from pocketmq.cluster.forking.launch import prepare

    if not wait_ready:  # else in the process in the background
        prepare()
    from pocketmq.cluster.background import in_background
    from pocketmq.cluster.default_proxy import with_proxy
    from pocketmq.cluster.up import UpSettings, run_up

    flags = {
        "nameservers": nameservers,
        "controllers": controllers,
        "brokers": brokers,
        "replicas": replicas,
        "slaves": slaves,
        "sync_slaves": sync_slaves,
        "acting_master": acting_master,
        "proxy": proxy,
        "host": host,
        "tls": tls,
        "members_must_prove": members_must_prove,
        "strangers_read_routes": strangers_read_routes,
        "users": users,
        "any_port": any_port,
        "data": data,
        "clock": clock,
        "profile": profile,
        "control_port": control_port,
        "events": events,
    }
    # None means that the flag was not given, so that the environment and the file count.
    loaded = load(ClusterOptions, flags, os.environ, config)
    # Before the file is checked: whether its [proxy] is used depends on this.
    options, no_proxy = with_proxy(loaded.config, loaded.origins)
    if config is not None:
        from pocketmq.cluster.cli.roles.config_file import refuse_unused_by_up

        refuse_unused_by_up(config, options, no_proxy)
    if ignored := unknown_names([ClusterOptions], os.environ):
        typer.echo(f"pocketmq up: unknown options ignored: {', '.join(ignored)}", err=True)
    settings = UpSettings(
        config_path=config,
        seed=seed,
        ports_file=ports_file,
        # With --wait-ready the cluster's parent is this command, which ends when the cluster is
        # ready.
        exit_with_parent=exit_with_parent and not wait_ready,
        background=wait_ready,
        # Read here, since the background process has another parent.
        caller_pid=os.getppid() if exit_with_parent and wait_ready else 0,
        no_proxy=no_proxy,
        may_lack_proxy=options.proxy and not loaded.config.proxy,
    )
    if wait_ready:
        return in_background(lambda: run_up(options, settings))
    return run_up(options, settings)
