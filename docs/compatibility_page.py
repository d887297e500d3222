"""`docs/compatibility.md`: who answers which request of RocketMQ, from what the roles register."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
from collections import defaultdict
from pathlib import Path

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.releases import known_in
from pocketmq.runtime.profile import PROFILES

ROLES = ("nameserver", "controller", "broker", "client")

OWN_FROM = 30_000
"""Codes above are PocketMQ's own, below 40,000; RocketMQ's pop requests lie above 200,000."""

WHY_NOT = {
    "no, nor does RocketMQ: the code is declared and nobody answers it": [
        code for code in RequestCode if code.meaning.startswith("declared by RocketMQ")
    ],
    "no, on purpose: stores are files here, not RocksDB": [354, 355],
    "no, on purpose: a broker container starts brokers in one JVM": [902, 903],
    "no, on purpose: between RocketMQ's own controllers": [1014, 1015, 1016, 1017, 1018],
    "no, on purpose: it shows the secrets of ACL 1.0, and 4.9.8 has it no more": [54],
    "no: static topics are not built": [513],
    "no: reads of cold data are not limited": [2001, 2002, 2003, 2004],
    "no, on purpose: it deletes the offsets of the groups that it is told to leave out; only "
    "RocketMQ's Java admin class asks": [308],
    "not needed: mqadmin's cloneGroupOffset asks 208, 105 and 15": [314],
    "no, on purpose: `consumeEnable` of a group (200) forbids all its topics; RocketMQ forbids one "
    "for pulls and not for pops": [353],
}


def answered() -> dict[int, list[str]]:
    """Request code -> roles that have a processor for it."""
    found: dict[int, list[str]] = defaultdict(list)
    for role in ROLES:
        try:
            package = importlib.import_module(f"pocketmq.{role}")
        except ModuleNotFoundError:
            continue
        codes: set[int] = set()
        for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if each.name.endswith("__main__"):
                continue
            for _, cls in inspect.getmembers(importlib.import_module(each.name), inspect.isclass):
                if not cls.__module__.startswith(package.__name__):
                    continue
                for member in vars(cls).values():
                    codes.update(getattr(member, "_handles", ()))
                    codes.update(getattr(member, "_handles_batch", ()))
        for code in codes:
            found[code].append(role)
    return found


def compatibility_page() -> str:
    """The page as Markdown."""
    rows, yes = _requests()
    return "\n".join(
        [
            "# Compatibility",
            "",
            "Which RocketMQ clients work with PocketMQ, and what of RocketMQ is not built.",
            "A Java client needs only the address:",
            "",
            "```java",
            'DefaultMQProducer producer = new DefaultMQProducer("shop");',
            'producer.setNamesrvAddr("127.0.0.1:9876");',
            "```",
            "",
            "`make docs` writes this page (`docs/compatibility_page.py`); do not edit it.",
            "",
            *_CLIENTS,
            "## Requests",
            "",
            f"PocketMQ answers {yes} of {len(rows)} request codes of RocketMQ 4.9 to 5.3.",
            "[generated/requests.md](generated/requests.md) lists each of them;",
            "[generated/profiles.md](generated/profiles.md), what else the profiles differ in.",
            "",
            *_NOT_BUILT,
            "",
            *_OTHERWISE,
            *_java_clients(),
        ]
    )


def requests_page() -> str:
    """Every request code of RocketMQ, and who answers it."""
    rows, yes = _requests()
    return "\n".join(
        [
            "# Requests of RocketMQ",
            "",
            f"PocketMQ answers {yes} of {len(rows)} request codes of RocketMQ 4.9 to 5.3.",
            "It refuses the others on purpose, for the reason beside each, with",
            "REQUEST_CODE_NOT_SUPPORTED (3), as RocketMQ answers a code that it does not know.",
            "A client answers a code that a broker sends to clients.",
            "",
            "| code | request | meaning | since | answered | with profile |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _requests() -> tuple[list[str], int]:
    """A row for each code, and how many are answered."""
    roles = answered()
    reasons = {int(code): why for why, codes in WHY_NOT.items() for code in codes}
    rows = []
    yes = 0
    for code in sorted(RequestCode):
        if OWN_FROM < code < OWN_FROM + 10_000:
            continue
        if code in roles:
            of_old = f" (until {code.until})" if code.until else ""
            state = f"**yes**: {', '.join(roles[code])}{of_old}"
            yes += 1
        else:
            state = reasons.get(code, "not built")
        profiles = " ".join(
            profile.name
            for profile in PROFILES
            if code in roles and known_in(profile.release)(code)
        )
        rows.append(
            f"| {int(code)} | `{code.name}` | {code.meaning} | {code.since} | {state} "
            f"| {profiles} |"
        )
    return rows, yes


_CLIENTS = """\
## Which clients

RocketMQ has two families of clients. Remoting clients ask a nameserver and connect to brokers: they work with PocketMQ as they are. gRPC clients, which came with
RocketMQ 5, connect to a proxy: PocketMQ's own ([grpc.md](grpc.md)), or RocketMQ's in front of PocketMQ.

| client | protocol | with PocketMQ |
|---|---|---|
| Java: `org.apache.rocketmq:rocketmq-client` | remoting | yes, 4.2.0 to 5.5.0: [below](#rocketmqs-java-clients) |
| Go: `github.com/apache/rocketmq-client-go/v2` | remoting | yes: [recipes/go](../recipes/README.md) |
| Python: `pocketmq.client` | remoting | yes; with RocketMQ's own broker too (`encoding="json"` or `"rocketmq"`) |
| C++: `rocketmq-client-cpp`, and Python's `rocketmq-client-python`, which calls it | remoting | not tried; PocketMQ reads its header, which differs from Java's ([protocol.md](protocol.md#where-readers-are-lenient)) |
| all of `apache/rocketmq-clients`: Java's `rocketmq-client-java`, Python's `rocketmq-python-client`, Go, C++, C#, Rust, Node.js | gRPC | 5 of 7, Java 5.2.0, Python 5.1.2, Go 5.1.4, Node.js 1.0.8 and Rust 5.0.0, work through PocketMQ's proxy ([14 features](grpc-sdks.md#what-each-sdk-does)), and tests run them with every change, Rust at night; C# and C++ were not tried with it. All of them work through RocketMQ's proxy 5.3.3 ([recipes/rocketmq-proxy](../recipes/rocketmq-proxy/README.md)). The ports of nameservers and brokers pass them on to a proxy; without one their error says what to install |

Any of them may use TLS ([security.md](security.md)). Brokers can check users and rules as ACL 2.0 of RocketMQ 5.3 does, and in profile 4.9 accounts as ACL 1.0 does.
Where [members must prove](members.md) who they are, RocketMQ's remoting clients need `strangersReadRoutes=true` at the nameservers.

""".splitlines()  # noqa: E501

_NOT_BUILT = """\
## What of RocketMQ 5 is not built

| what | its codes and settings | what a client sees |
|---|---|---|
| static topics (5.0) | UPDATE_AND_CREATE_STATIC_TOPIC (513), `topicQueueMapping.json` | 513: REQUEST_CODE_NOT_SUPPORTED (3). No route has a mapping |
| `queue.type` = `BatchCQ` (5.0) | attribute of a topic, set by 17; consume queues of 46 bytes an entry | 17 is refused and names `SimpleCQ`, the one value. Batches are stored message by message |
| `cleanup.policy` = `COMPACTION` (5.0) | attribute of a topic | 17 is refused and names `DELETE` |
| lite topics (5.5) | POP_LITE_MESSAGE (200070), LITE_SUBSCRIPTION_CTL (200071), ACK_LITE_MESSAGE (200072), NOTIFY_UNSUBSCRIBE_LITE (200073), 200074 to 200079 of tools, `message.type` = `LITE`, `__LITE_TOPIC` | REQUEST_CODE_NOT_SUPPORTED (3); 17 refuses the type. RocketMQ's remoting client of 5.5.0 has no consumer for them |
| check points in RocksDB (5.3.2) | `popConsumerKVServiceEnable` | POP_ROLLBACK (200056): SUCCESS (0), there are none to move |
| timers in RocksDB (5.5) | SWITCH_TIMER_ENGINE (5001), `timerRocksDBEnable`, field `E_T` of 5001: `R` or `F` | REQUEST_CODE_NOT_SUPPORTED (3): the timer wheel is the one engine |
| latencies in 315 | `TOPIC_PUT_LATENCY`, `GROUP_GET_LATENCY` | SYSTEM_ERROR (1): no such item |

Profile 5.5 has these features of 5.4 and 5.5: priority messages, `suspend` of CHANGE_MESSAGE_INVISIBLETIME (200053), expressions in
NOTIFICATION (200054), committed messages without REAL_TOPIC, the index by tag (`indexType` = `T` of QUERY_MESSAGE (12)).
""".splitlines()  # noqa: E501


_OTHERWISE = """\
## Where PocketMQ does otherwise on purpose

| RocketMQ | PocketMQ | rule |
|---|---|---|
| a half message with a delay level or a timer is delayed at once, while it is still a half message. The send is acknowledged, but the transaction never finds the message | the message is a normal half message; its delay begins at the commit | X-11 |
| QUERY_MESSAGE (12) answers with all messages whose key or tag has the hash of the one asked for; clients leave out the others | the broker compares the key or tag too | S-48 |
| in 5.3 a message that comes again in a V1 retry topic wakes no pop that waits | it wakes those of its group, in every profile | K-133 |
| with `tls.ciphers` (5.5) each suite of TLS 1.3 can be chosen | these are spoken all or not at all: OpenSSL's choice among them cannot be changed from Python | Y-5 |
| a broker's replicas and its controllers | some decisions of its own, each with its reason: [the list](rules/replication.md#what-pocketmq-does-otherwise) | W-1 |

""".splitlines()  # noqa: E501


def _java_clients() -> list[str]:
    """What RocketMQ's Java clients did in a run by hand (`docs/java_clients.toml`)."""
    run = tomllib.loads(Path(__file__).with_name("java_clients.toml").read_text(encoding="utf-8"))
    versions = run["clients"]
    features = list(next(iter(versions.values())))
    return [
        "## RocketMQ's Java clients",
        "",
        f"Program: `tests/interop/java_versions/Rows.java`. Date: {run['date']}. `ok` is with",
        "PocketMQ's broker.",
        f"`absent`: this version has no such call. CI runs {' and '.join(run['in_ci'])};",
        "`tests/interop/test_java_versions.py` says how to run the others.",
        f"{run['newest']}",
        "",
        f"| feature | {' | '.join(versions)} |",
        "|---|" + "---|" * len(versions),
        *(
            f"| {name} | {' | '.join(each[name] for each in versions.values())} |"
            for name in features
        ),
        "",
        *(f"- {note}" for note in run["notes"]),
        "",
        *run["real"].strip().splitlines(),
        "",
    ]
