"""Recipe of `tests/golden/declared`: what RocketMQ's own header and body classes write.

    python tests/interop/record_declared.py [FOLDER]

One Java process for each header encoding fills every field of each class with a value that follows
from the field's name (`WriteDeclared.java`). All classes are written, declared by us or not yet.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.golden import GOLDEN
from support.java import build, run_java
from support.java_classes import PACKAGE, bodies, headers


def classes_of(package: str) -> set[str]:
    """Full names of the top-level classes of a package and those below it, from the jar."""
    path = build().read_text().splitlines()[-1].strip('"')
    [jar] = [each for each in path.split(os.pathsep) if "/rocketmq-remoting-" in each]
    start = f"{package.replace('.', '/')}/"
    with zipfile.ZipFile(jar) as archive:
        files = [name for name in archive.namelist() if name.startswith(start)]
    names = (name.removesuffix(".class").replace("/", ".") for name in files)
    return {name for name in names if "$" not in name and not name.endswith((".", "Util"))}


def written(names: list[str], encoding: str) -> dict[str, dict[str, Any]]:
    """What Java writes for each class, by the class's full name."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(names))
        file.flush()
        properties = {"rocketmq.serialize.type": encoding.upper()}
        run = run_java("WriteDeclared", file.name, properties=properties)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert [line["class"] for line in lines] == names
    return {line.pop("class"): line for line in lines}


def main() -> None:
    """Write `headers.json` and `bodies.json` into the folder of the command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "declared"
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(
        {java for _, java in headers()}
        | {name for name in classes_of(f"{PACKAGE}.header") if name.endswith("Header")}
    )
    texts, binaries = (written(names, encoding) for encoding in ("json", "rocketmq"))
    filled = {
        name: {
            "fields": texts[name]["fields"],
            "json": texts[name]["frame"],
            "rocketmq": binaries[name]["frame"],
        }
        for name in names
    }
    (folder / "headers.json").write_text(json.dumps(filled, indent=1) + "\n")
    structures = written(
        sorted({java for _, java in bodies()} | classes_of(f"{PACKAGE}.body")), "json"
    )
    texts_only = {name: line["body"] for name, line in structures.items()}
    (folder / "bodies.json").write_text(json.dumps(texts_only, indent=1) + "\n")
    print(f"{len(filled)} headers, {len(texts_only)} bodies")


if __name__ == "__main__":
    main()
