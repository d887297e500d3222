"""`docs/compatibility.md`: who answers which request of RocketMQ, from what the roles register."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

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
            "This page lists the RocketMQ clients that work with PocketMQ, and the parts of",
            "RocketMQ that PocketMQ does not have. A Java client needs only the address of a",
            "nameserver:",
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
            "[generated/requests.md](generated/requests.md) lists all of them.",
            "[generated/profiles.md](generated/profiles.md) lists how the profiles differ.",
            "",
            *_NOT_BUILT,
            "",
            *_OTHERWISE,
            *_suites(),
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

RocketMQ has two families of clients:

- Remoting clients ask a nameserver for routes, and connect to brokers. They work with PocketMQ unchanged.
- gRPC clients came with RocketMQ 5, and connect to a proxy. PocketMQ has [its own proxy](grpc.md). RocketMQ's proxy works with PocketMQ's brokers too.

| remoting client | with PocketMQ |
|---|---|
| Java: `org.apache.rocketmq:rocketmq-client` | Versions 4.2.0 to 5.5.0 work: [below](#rocketmqs-java-clients) |
| Spring Boot: `org.apache.rocketmq:rocketmq-spring-boot-starter` 2.3.5 | It works, with Spring Boot 2.7 and 3.5: [below](#suites-of-others) |
| Alibaba Cloud's `com.aliyun.openservices:ons-client` 1.8 | It works, but its delays do not: [below](#suites-of-others) |
| Go: `github.com/apache/rocketmq-client-go/v2` | It works: [recipes/go](../recipes/README.md), [rows](#suites-of-others) |
| Python: `pocketmq.client` | It works, and with RocketMQ's broker too (`encoding="json"` or `"rocketmq"`) |
| C++: `rocketmq-client-cpp`. Python: `rocketmq-client-python`, which calls the C++ client | They were not tried. PocketMQ can read the headers that these clients send ([protocol.md](protocol.md#where-readers-are-lenient)) |

The gRPC clients come from `apache/rocketmq-clients`. You can use them with RocketMQ's proxy 5.3.3 ([recipes/rocketmq-proxy](../recipes/rocketmq-proxy/README.md)). Tests try [14 features](grpc-sdks.md#what-each-sdk-does) of these clients with PocketMQ's proxy:

| gRPC client | with PocketMQ's proxy |
|---|---|
| Java: `rocketmq-client-java` 5.2.0 | It works |
| Python: `rocketmq-python-client` 5.1.2 | It works |
| Go 5.1.4, Node.js 1.0.8 | They work |
| Rust 5.0.0 | It works. Its tests run only at night |
| C#, C++ | They were not tried |

A gRPC client may also connect to the port of a nameserver or broker. The port passes the connection on to a proxy. If there is no proxy, the client gets an error that says what to install.

All clients may use TLS ([security.md](security.md)). Brokers can check users and their rights by ACL 2.0, as in RocketMQ 5.3. Brokers with profile 4.9 can check accounts by ACL 1.0.

With the option `members_must_prove`, nameservers answer only clients that know [the cluster's secret](members.md). RocketMQ's remoting clients cannot know it. To give these clients routes, set `strangersReadRoutes=true` at the nameservers.

""".splitlines()  # noqa: E501

_NOT_BUILT = """\
## What of RocketMQ 5 is not built

| feature | codes and settings | what a client sees |
|---|---|---|
| static topics (5.0) | UPDATE_AND_CREATE_STATIC_TOPIC (513), `topicQueueMapping.json` | The request gets REQUEST_CODE_NOT_SUPPORTED (3). Routes contain no queue mappings |
| batches in the consume queue (5.0) | topic attribute `queue.type` = `BatchCQ` | UPDATE_AND_CREATE_TOPIC (17) with this value is refused. The error names the only possible value, `SimpleCQ`. Each message of a batch is stored by itself |
| compaction (5.0) | topic attribute `cleanup.policy` = `COMPACTION` | UPDATE_AND_CREATE_TOPIC (17) with this value is refused. The error names the only possible value, `DELETE` |
| lite topics (5.5) | requests 200070 to 200079, such as POP_LITE_MESSAGE (200070); `message.type` = `LITE` | The requests get REQUEST_CODE_NOT_SUPPORTED (3). UPDATE_AND_CREATE_TOPIC (17) refuses this `message.type` |
| check points of pops in RocksDB (5.3.2) | `popConsumerKVServiceEnable` | POP_ROLLBACK (200056) gets SUCCESS (0), but moves no check point, because PocketMQ keeps none in RocksDB |
| timers in RocksDB (5.5) | SWITCH_TIMER_ENGINE (5001), `timerRocksDBEnable` | The request gets REQUEST_CODE_NOT_SUPPORTED (3). All timers are in the timer wheel |
| latencies in VIEW_BROKER_STATS_DATA (315) | `TOPIC_PUT_LATENCY`, `GROUP_GET_LATENCY` | A request for one of these items gets SYSTEM_ERROR (1). The remark says that the item does not exist |

Profile 5.5 has these features of RocketMQ 5.4 and 5.5:

- priority messages
- `suspend` of CHANGE_MESSAGE_INVISIBLETIME (200053)
- filter expressions in NOTIFICATION (200054)
- committed transaction messages without the property REAL_TOPIC
- the index by tag (`indexType` = `T` of QUERY_MESSAGE (12))
""".splitlines()  # noqa: E501


_OTHERWISE = """\
## Where PocketMQ does otherwise on purpose

| RocketMQ | PocketMQ | rule |
|---|---|---|
| If a half message has a delay level or a timer, its delay begins before the commit. The send is acknowledged, but the transaction does not find the message | The delay of a half message begins at the commit | X-11 |
| QUERY_MESSAGE (12) finds messages by the hash of the key or tag. Two keys can have the same hash. The answer then also has messages with the other key, and clients drop these messages | The broker also compares the key or tag itself, so the answer has no other messages | S-48 |
| In 5.3, a message in a retry topic of version 1 does not wake waiting pops | In every profile, a message in such a topic wakes the waiting pops of its group | K-133 |
| With `tls.ciphers` (5.5), you can choose some of the cipher suites of TLS 1.3 | You can only allow all cipher suites of TLS 1.3, or none. Python cannot choose among them | Y-5 |
| Replicas and controllers decide by RocketMQ's rules | Some rules differ. [A list](rules/replication.md#what-pocketmq-does-otherwise) has each different rule and its reason | W-1 |

""".splitlines()  # noqa: E501


def _suites() -> list[str]:
    """What programs with other libraries did (`docs/compat_suites.toml`)."""
    lines = [
        "## Suites of others",
        "",
        "`make compat` tries the client libraries that RocketMQ's users have (`tests/compat`). For",
        "each library, a program sends and receives messages. A *row* is one feature that the",
        "program tries. For example, the row `delay` passes if a delayed message arrives, and not",
        "too early. To run a program with RocketMQ's own broker:",
        "`python scripts/compat.py --only spring --broker 5.3.3`.",
        "",
        "| suite | version | date | rows that pass | rows that fail |",
        "|---|---|---|---|---|",
    ]
    below = ["| subcommands of `mqadmin` | why their output differs |", "|---|---|"]
    for suite, versions in _known_suites().items():
        for version, facts in versions.items():
            passed = facts["passed"]
            told = {
                "java": ": [below](#rocketmqs-java-clients)",
                "mqadmin": " subcommands have the same exit status and fields",
            }.get(suite, f": {', '.join(passed)}")
            reasons = _reasons(facts.get("failed", {}))
            if suite == "mqadmin":
                below += [f"| {names} | {why} |" for why, names in reasons.items()]
                failed = f"{len(facts['failed'])} subcommands: see the next table"
            else:
                failed = "<br>".join(f"{names}: {why}" for why, names in reasons.items())
            lines.append(
                f"| {facts['title']} | {version} | {facts['date']} "
                f"| {len(passed)}{told} | {failed or 'none'} |"
            )
    return [*lines, "", *below, ""]


def _reasons(failed: dict[str, str]) -> dict[str, str]:
    """Why rows fail -> their names; those with one reason stand together."""
    rows: dict[str, list[str]] = {}
    for row, why in failed.items():
        rows.setdefault(why, []).append(f"`{row}`")
    return {why: ", ".join(names) for why, names in rows.items()}


def _known_suites() -> dict[str, Any]:
    """Suite -> version -> what the ledger says of it."""
    path = Path(__file__).with_name("compat_suites.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _java_clients() -> list[str]:
    """What RocketMQ's Java clients did in `make compat`, and what is known of them beside that."""
    run = tomllib.loads(Path(__file__).with_name("java_clients.toml").read_text(encoding="utf-8"))
    versions = _known_suites()["java"]
    features = max((each["passed"] for each in versions.values()), key=len)
    dates = sorted({each["date"] for each in versions.values()})
    return [
        "## RocketMQ's Java clients",
        "",
        "`ok` means that the feature worked with PocketMQ's broker. `absent` means that this",
        "version of the client does not have the feature. `tests/interop/java_versions/Rows.java`",
        f"tried the features on {' and '.join(dates)}. CI runs {' and '.join(run['in_ci'])}.",
        "`python scripts/compat.py --only java --version VERSION` runs another version.",
        f"{run['newest']}",
        "",
        f"| feature | {' | '.join(versions)} |",
        "|---|" + "---|" * len(versions),
        *(
            f"| {name} | "
            + " | ".join("ok" if name in each["passed"] else "absent" for each in versions.values())
            + " |"
            for name in features
        ),
        "",
        *(f"- {note}" for note in run["notes"]),
        "",
        *run["real"].strip().splitlines(),
        "",
    ]
