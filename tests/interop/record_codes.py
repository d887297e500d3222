"""Recipe of `tests/golden/declared/codes.json`: codes and flags in RocketMQ's own classes.

    python tests/interop/record_codes.py [FOLDER]

`javap` reads them from the jars that Maven has fetched (`make setup`, `tests/interop`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.golden import GOLDEN

JARS = Path.home() / ".m2/repository/org/apache/rocketmq"
CONSTANTS = {
    "RequestCode": [
        ("common", "4.9.8", "common.protocol.RequestCode"),
        ("remoting", "5.3.3", "remoting.protocol.RequestCode"),
    ],
    "ResponseCode": [
        ("remoting", "5.3.3", "remoting.protocol.RemotingSysResponseCode"),
        ("remoting", "5.3.3", "remoting.protocol.ResponseCode"),
    ],
    "ClientErrorCode": [("client", "5.3.3", "client.common.ClientErrorCode")],
    "Perm": [("common", "5.3.3", "common.constant.PermName")],
    "TopicSysFlag": [("common", "5.3.3", "common.sysflag.TopicSysFlag")],
    "PullSysFlag": [("common", "5.3.3", "common.sysflag.PullSysFlag")],
    "MessageSysFlag": [("common", "5.3.3", "common.sysflag.MessageSysFlag")],
}
"""Class of ours -> artifacts, versions and classes of theirs; a later one wins."""


def printed(artifact: str, version: str, name: str, option: str) -> str:
    """What `javap` says of a class."""
    jar = JARS / f"rocketmq-{artifact}" / version / f"rocketmq-{artifact}-{version}.jar"
    command = ["javap", option, "-p", "-cp", str(jar), f"org.apache.rocketmq.{name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def constants(text: str) -> dict[str, int]:
    """Name -> number of each constant."""
    found = re.findall(r"static final (?:int|short) (\w+) = (-?\d+);", text)
    return {name: int(number) for name, number in found}


def languages(text: str) -> dict[str, int]:
    """Name -> code, from what an enum's constructor is given: name, ordinal, code."""
    push = r"\d+: (?:iconst_|bipush +)(\d+)\s+"
    found = re.findall(rf"// String (\w+)\s+{push}{push}\d+: invokespecial", text)
    return {name: int(code) for name, _, code in found}


def main() -> None:
    """Write `codes.json` into the folder of the command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "declared"
    codes: dict[str, dict[str, int]] = {}
    for ours, theirs in CONSTANTS.items():
        codes[ours] = {}
        for artifact, version, name in theirs:
            codes[ours] |= constants(printed(artifact, version, name, "-constants"))
    enum = printed("remoting", "5.3.3", "remoting.protocol.LanguageCode", "-c")
    codes["LanguageCode"] = languages(enum)
    (folder / "codes.json").write_text(json.dumps(codes, indent=1) + "\n")
    print({ours: len(numbers) for ours, numbers in codes.items()})


if __name__ == "__main__":
    main()
