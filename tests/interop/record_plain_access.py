"""Recipe of `tests/golden/access/answers_4_9_8.txt`: what RocketMQ 4.9.8's ACL 1.0 decides.

python tests/interop/record_plain_access.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.golden import GOLDEN
from support.plain_access_cases import drawn

SOURCE = Path(__file__).resolve().parent / "java_plain_access" / "JudgePlainAccess.java"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>p</groupId><artifactId>p</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-acl</artifactId><version>4.9.8</version>
</dependency></dependencies></project>"""


def main() -> None:
    """Ask RocketMQ's own code anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pom.xml").write_text(POM)
        (folder / "cases.json").write_text(json.dumps(drawn()))
        goal = ["dependency:build-classpath", "-Dmdep.outputFile=path"]
        subprocess.run(["mvn", "-B", "-q", *goal], cwd=folder, check=True)
        path = (folder / "path").read_text().strip()
        command = ["java", "-cp", path, str(SOURCE), "cases.json"]
        told = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        lines = [each for each in told.stdout.splitlines() if each.startswith("ANSWER ")]
        answers = "".join(each.removeprefix("ANSWER ") + "\n" for each in lines)
        (GOLDEN / "access" / "answers_4_9_8.txt").write_text(answers)


if __name__ == "__main__":
    main()
