"""Each file of the product that writes files is in the table of writers, or says why not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from durability.table import TABLES, WRITERS

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = (
    *("runtime", "protocol", "nameserver", "controller", "broker", "client", "pipeline"),
    *("cluster", "proxy", "testing"),
)
CALLS: Final = {
    *("write_text", "write_bytes", "append_text", "write_file", "create_file", "resize_file"),
    *("map_file", "write_table", "write_deltalake", "table_file", "rename", "copyfile"),
    *("copytree", "copy2", "DurableFile", "JsonFile", "TableFile", "MappedFiles"),
}
"""What makes, changes or renames files, by whatever it is called on."""
OF_OS: Final = {"replace", "copy", "move", "link", "symlink", "truncate"}
"""The same of `os` and `shutil`; others have methods of these names."""

_SEAM: Final = "passes each call on: the seam to the file system, which all entries go through"
_STORE: Final = "a store: `scripts/power_cuts.py`, in CI `tests/broker/store/test_power_cut.py`"
_LOG: Final = "a log or list that is written on, of which a cut may take the end"
_ASKED: Final = "what somebody asked to have written now, who sees whether it was"
_SHORT: Final = "of a running cluster: nothing reads it after a reboot"
_OPTIONS: Final = "changed options, by `DurableFile`, whose entry is the KV file"
_OTHERS: Final = "tables that Delta's and Spark's own writers commit"
EXCEPTIONS: Final = {
    "broker/admin/assembly.py": _OPTIONS,
    "broker/groups/consumers.py": "renames a member, no file",
    "broker/store/log/commit_log.py": _STORE,
    "broker/store/queues/consume_queue.py": _STORE,
    "broker/store/disk/disk.py": _SEAM,
    "broker/store/disk/fault_disk.py": _SEAM,
    "broker/store/flush/flush_service.py": _STORE,
    "broker/store/index/index_file.py": _STORE,
    "broker/store/disk/mapped_file.py": _STORE,
    "broker/store/disk/mapped_files.py": _STORE,
    "broker/store/recovery/opening.py": _STORE,
    "cluster/background.py": _LOG,
    "cluster/cli/messages/transfer.py": _ASKED,
    "cluster/demo/grpc_director.py": _SHORT,
    "cluster/demo/record_file.py": _SHORT,
    "cluster/demo/sdk_worker.py": _SHORT,
    "cluster/demo/spark_step.py": _LOG,
    "cluster/labs/program.py": _LOG,
    "cluster/labs/start.py": _ASKED,
    "cluster/process.py": _LOG,
    "cluster/recordings/writer.py": _LOG,
    "cluster/up.py": _SHORT,
    "cluster/watching/export.py": _ASKED,
    "controller/server.py": _OPTIONS,
    "nameserver/server.py": _OPTIONS,
    "pipeline/sending/bad_rows.py": _ASKED,
    "pipeline/jobs/offset_looks.py": _LOG,
    "pipeline/jobs/schemas/protobuf.py": "in a temporary folder, for the compiler",
    "pipeline/lake/delta.py": _OTHERS,
    "pipeline/lake/hadoop_folder.py": _OTHERS,
    "pipeline/spark/package.py": _ASKED,
    "proxy/edge/socket_folder.py": _SHORT,
    "testing/role_thread.py": _SEAM,
}
"""Files that write and have no entry, with the reason."""


def test_each_file_that_writes_has_an_entry_or_says_why_not() -> None:
    found = {path: calls for path, calls in _writers() if calls}
    covered = {file for writer in WRITERS for file in writer.files}
    missing = {
        path: calls
        for path, calls in found.items()
        if path not in covered and path not in EXCEPTIONS
    }
    assert not missing, "a new writer is an entry in tests/durability/table.py"
    assert not EXCEPTIONS.keys() - found.keys(), "writes no more: take the exception out"
    assert not EXCEPTIONS.keys() & covered
    assert not {file for file in covered if not (ROOT / _place(file)).exists()}
    assert len(EXCEPTIONS) == 33, "an exception is counted here, so that a new one is noticed"


def test_each_table_of_a_broker_has_its_power_cuts() -> None:
    named = {
        call.args[0].value
        for path in (ROOT / "broker").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and _name(call) == "table_file"
        if isinstance(call.args[0], ast.Constant)
    }
    assert named == TABLES.keys()


def test_each_writer_has_a_planted_fault() -> None:
    assert all(writer.faults for writer in WRITERS)
    assert len({writer.name for writer in WRITERS}) == len(WRITERS)


def test_a_write_is_found_however_it_is_spelled() -> None:
    for text in (
        "open(path, 'w')",
        "path.open('ab', buffering=0)",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "os.replace(a, b)",
        "part.rename(path)",
        "disk.create_file(path, 10)",
        "zipfile.ZipFile(path, 'w')",
    ):
        assert list(_writes(ast.parse(text))), text
    for text in ("open(path)", "path.open('rb')", "text.replace(a, b)", "os.open(os.devnull, 1)"):
        assert not list(_writes(ast.parse(text))), text


def _writers() -> Iterator[tuple[str, list[str]]]:
    for folder in FOLDERS:
        top = ROOT / folder / "pocketmq"
        for path in sorted(top.rglob("*.py")):
            yield path.relative_to(top).as_posix(), list(_writes(ast.parse(path.read_text())))


def _place(file: str) -> Path:
    return Path(file.split("/", 1)[0], "pocketmq", file)


def _writes(tree: ast.AST) -> Iterator[str]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name, text = _name(call), ast.unparse(call)
        is_one = name in CALLS or (name in OF_OS and text.startswith(("os.", "shutil.")))
        opens = name == "open" and _opens(call, text)
        if is_one or opens or (name == "ZipFile" and _has_mode(call)):
            yield text


def _name(call: ast.Call) -> str:
    made = call.func
    return made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")


def _opens(call: ast.Call, text: str) -> bool:
    if "devnull" in text:
        return False
    return _has_mode(call) or any(flag in text for flag in ("O_CREAT", "O_WRONLY", "O_RDWR"))


def _has_mode(call: ast.Call) -> bool:
    """Whether a mode is given that writes."""
    texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
    texts += [each.value.value for each in call.keywords if isinstance(each.value, ast.Constant)]
    modes = [text for text in texts if isinstance(text, str) and set(text) <= set("rwaxbt+")]
    return any(set(mode) & set("wax+") for mode in modes)
