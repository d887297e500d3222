"""Recipe of `tests/golden/declared/options.json`: what RocketMQ's broker declares of its options.

    python tests/interop/record_options.py [FILE]

For each name that both have: RocketMQ's class, type, default, and what becomes of extreme values
(`WriteOptions.java`). Beside it `option_names.txt`: all that RocketMQ has, so that a test misses an
option of ours in the table that has such a name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.broker_options import options_of_broker
from support.golden import GOLDEN
from support.java import run_java

CLASSES = (
    "org.apache.rocketmq.common.BrokerConfig",
    "org.apache.rocketmq.remoting.netty.NettyServerConfig",
    "org.apache.rocketmq.remoting.netty.NettyClientConfig",
    "org.apache.rocketmq.store.config.MessageStoreConfig",
    "org.apache.rocketmq.auth.config.AuthConfig",
)
"""In the order in which a broker registers them; a later one's value is the one shown."""

OF_THE_MACHINE = ("brokerName", "brokerIP1", "storePathRootDir")
"""Their defaults are its name, address and user."""


def declared() -> dict[str, dict[str, Any]]:
    """All of RocketMQ's options of a broker, by name."""
    run = run_java("WriteOptions", *CLASSES, server=True)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    found: dict[str, dict[str, Any]] = {line.pop("option"): line for line in lines}
    for name in OF_THE_MACHINE:
        found[name]["default"] = "(of the machine)"
    return found


def main() -> None:
    """Write the file of the command line."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "declared" / "options.json"
    theirs, ours = declared(), options_of_broker()
    common = {name: theirs[name] for name in sorted(ours.keys() & theirs.keys())}
    path.write_text(json.dumps(common, indent=1) + "\n")
    path.with_name("option_names.txt").write_text("".join(f"{name}\n" for name in sorted(theirs)))
    print(f"{len(common)} options that both have, of {len(theirs)} of RocketMQ")


if __name__ == "__main__":
    main()
