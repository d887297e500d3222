"""`pocketmq fault`, `partition` and `fault-proxy`: break what roles say to each other, by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import msgspec
import typer

from pocketmq.cluster.cli.common.complete import (
    complete_group,
    complete_request_code,
    complete_response_code,
    complete_topic,
)
from pocketmq.cluster.cli.common.complete_roles import (
    complete_other,
    complete_role,
    complete_rule,
)
from pocketmq.cluster.cli.common.output import Output, Sentences, show, tell
from pocketmq.cluster.cli.common.run import run
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.roles.steer import Control, Data, tell_done
from pocketmq.cluster.control_address.client import ControlClient, part
from pocketmq.cluster.control_address.declarations import Done, FaultState, Partition
from pocketmq.operation.faults.rule import MAX_DELAY_MS, Deed, FaultRule, check_deed
from pocketmq.protocol.codes import request_name, response_name
from pocketmq.runtime.errors import CallerError

ADD_HELP = """Add a fault rule.

The first argument says what happens. fail: the answer is an error code. delay: the request waits
before it is processed. drop: the answer is lost. lose: the request or notification is lost.
duplicate: the request is processed twice. reset: the connection is closed. slow-fsync: each sync to
the disk is slower. disk-full: the disk seems full. disk-error: writing to the disk fails.

\b
Examples:
  pocketmq fault add fail --code SEND_MESSAGE --topic orders --nth 3 \\
      --with-code SYSTEM_BUSY
  pocketmq fault add lose --code NOTIFY_CONSUMER_IDS_CHANGED \\
      --probability 0.5 --seed 7
  pocketmq fault add slow-fsync --role broker-a --delay-ms 800
"""

LIST_HELP = """Show the fault rules, and how often each rule fired.

\b
Example:
  pocketmq fault list
"""

CLEAR_HELP = """Remove one fault rule, or all fault rules.

\b
Examples:
  pocketmq fault clear r1
  pocketmq fault clear
"""

PARTITION_HELP = """Cut off a role from another role, or from its clients.

The partition holds until you remove it with `pocketmq fault clear`. Until then, data between the
two sides waits, and new connections between two roles are refused. When you remove the partition,
the data is delivered. `pocketmq ps` shows the names of the roles. The name `others` means all other
roles.

\b
Examples:
  pocketmq partition broker-a nameserver-1
  pocketmq partition broker-a clients
  pocketmq partition broker-a-2 others
  pocketmq partition controller-1 controller-2
"""

PROXY_HELP = """Forward connections to a process, and apply fault rules.

The process may be a role of PocketMQ or of RocketMQ. The command reads fault rules from a TOML or
JSON file. Each time a rule fires, the command prints a line of JSON. If the process is a RocketMQ
broker, set its brokerIP1 to the address of fault-proxy. Clients then connect through fault-proxy.

\b
Examples:
  pocketmq fault-proxy --to 127.0.0.1:10911 --listen 127.0.0.2:10911 \\
      --rules faults.toml
  [[faults]]                                 # faults.toml
  do = "drop"
  code = "SEND_MESSAGE"
  nth = 2
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("add", help=ADD_HELP)(add)
    group.command("list", help=LIST_HELP)(list_rules)
    group.command("clear", help=CLEAR_HELP)(clear)
    app.add_typer(group, name="fault", help="Faults by rule: add, list, clear.")
    app.command("partition", help=PARTITION_HELP)(partition)
    app.command("fault-proxy", help=PROXY_HELP)(fault_proxy)


def _deeds(incomplete: str) -> list[str]:
    return [deed for deed in get_args(Deed) if deed.startswith(incomplete)]


def add(
    do: Annotated[str, typer.Argument(help="What happens; see above.", autocompletion=_deeds)],
    role: Annotated[
        str | None, typer.Option(help="At this role only.", autocompletion=complete_role)
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(help="Request code, as name or number.", autocompletion=complete_request_code),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(help="Requests about this topic only.", autocompletion=complete_topic),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Requests of this group only.", autocompletion=complete_group),
    ] = None,
    nth: Annotated[int | None, typer.Option(min=1, help="At this call of those that fit.")] = None,
    times: Annotated[int | None, typer.Option(min=1, help="At most so many times.")] = None,
    probability: Annotated[float, typer.Option(min=0, max=1, help="Above 0, up to 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the probability.")] = 0,
    with_code: Annotated[
        str, typer.Option(help="Response code of fail.", autocompletion=complete_response_code)
    ] = "SYSTEM_ERROR",
    delay_ms: Annotated[
        int, typer.Option(min=0, max=MAX_DELAY_MS, help="Length of delay and slow-fsync.")
    ] = 0,
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    check_deed(do)
    given = {
        "do": do,
        "role": role,
        "code": code,
        "topic": topic,
        "group": group,
        "nth": nth,
        "times": times,
        "probability": probability,
        "seed": seed,
        "with_code": with_code,
        "delay_ms": delay_ms,
    }
    # The option's range includes 0, since typer has no open ranges.
    if not probability:
        raise CallerError(
            "a fault of probability 0 never fires; write a probability above 0 and up to 1"
        )
    rule = msgspec.convert(given, FaultRule)
    rule.checked()  # before a cluster is looked for: what is wrong here is wrong in every one
    made = ControlClient.found(control, data).post("/faults", FaultRule, rule)
    tell(output, msgspec.to_builtins(made), _line(made))


def list_rules(output: Output = None, control: Control = None, data: Data = None) -> None:
    states = ControlClient.found(control, data).get("/faults", list[FaultState])
    rows = [
        (
            *_line(each.rule).split(" ", 1),
            ", ".join(f"{role} {count}" for role, count in each.fired.items() if count) or "never",
        )
        for each in states
    ]
    show(output, msgspec.to_builtins(states), Table("rule", ("rule", "does", "fired"), rows))


def clear(
    rule: Annotated[
        str | None,
        typer.Argument(help="Id of one rule; all by default.", autocompletion=complete_rule),
    ] = None,
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    path = "/faults" if rule is None else f"/faults/{part(rule)}"
    tell_done(output, ControlClient.found(control, data).delete(path, Done))


def partition(
    role: Annotated[str, typer.Argument(help="Name of a role.", autocompletion=complete_role)],
    other: Annotated[
        str,
        typer.Argument(
            help="Name of another, `others`, or `clients`.", autocompletion=complete_other
        ),
    ],
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    client = ControlClient.found(control, data)
    made = client.post(f"/roles/{part(role)}/partition", FaultRule, Partition(other))
    tell(output, msgspec.to_builtins(made), _line(made))


def fault_proxy(
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="Address of the process.")],
    rules: Annotated[Path, typer.Option(metavar="FILE", help="TOML or JSON with [[faults]].")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where clients connect; port 0: any.")
    ] = "127.0.0.1:0",
) -> None:
    from pocketmq.cluster.faults.rules_file import read_rules
    from pocketmq.cluster.faults.run import run_proxy

    run(run_proxy(to, listen, read_rules(rules)))


def _line(rule: FaultRule) -> str:
    words = [rule.id, rule.do]
    # A partition drops all frames between two roles, so the other fields do not apply.
    if rule.do == "partition":
        return f"{rule.id} partition {rule.role} {rule.other}"
    if rule.role is not None:
        words.append(f"at {rule.role}")
    if rule.code is not None:
        words.append(request_name(int(rule.code)))
    if rule.do == "fail":
        words.append(f"with {response_name(int(rule.with_code))}")
    named = {name: getattr(rule, name) for name in ("topic", "group", "nth", "times")}
    words += [f"{name}={value}" for name, value in named.items() if value is not None]
    if rule.probability < 1:
        words.append(f"probability={rule.probability:g} seed={rule.seed}")
    if rule.delay_ms:
        words.append(f"{rule.delay_ms} ms")
    return " ".join(words)
