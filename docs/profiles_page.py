"""`docs/generated/profiles.md`: what each profile answers, refuses and takes as default."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from docs.compatibility_page import OWN_FROM, answered

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.releases import known_in
from pocketmq.runtime.profile import PROFILES, Profile
from pocketmq.runtime.profile.broker import BrokerProfile
from pocketmq.runtime.profile.client import ClientProfile
from pocketmq.runtime.profile.nameserver import NameServerProfile

PARTS = {"nameserver": NameServerProfile, "broker": BrokerProfile, "client": ClientProfile}

NOT_BUILT = (
    ("X-52", "5.4", "open half messages in RocksDB, off by default"),
    ("V-20", "5.5", "lite topics and their requests (200070 to 200079)"),
)
"""What is known of releases after 5.3.3 and missing here."""


def profiles_page() -> str:
    """The page as Markdown."""
    names = [profile.name for profile in PROFILES]
    lines = [
        "# Profiles",
        "",
        "Made by `make docs` from the declarations; do not edit.",
        "",
        "`--profile` of a nameserver, a broker and `pocketmq up` chooses whose rules hold; `5.x`",
        f"is the newest, {names[-1]}. Each stands for the newest release of its line that we read:",
        ", ".join(".".join(map(str, profile.release)) for profile in PROFILES) + ".",
        "A request that came after it gets REQUEST_CODE_NOT_SUPPORTED (3).",
        "",
        "## Requests that not every profile answers",
        "",
        f"| code | request | {' | '.join(names)} |",
        "|---|---|" + "---|" * len(names),
        *_request_rows(),
    ]
    for part, cls in PARTS.items():
        lines += [
            "",
            f"## Rules of the {part}",
            "",
            f"| rule | {' | '.join(names)} |",
            "|---|" + "---|" * len(names),
            *_rule_rows(part, cls),
        ]
    lines += [
        "",
        "## Known of later releases and not built",
        "",
        "| since | what | rule |",
        "|---|---|---|",
        *(f"| {since} | {what} | {rule} |" for rule, since, what in NOT_BUILT),
    ]
    return "\n".join([*lines, ""])


def _request_rows() -> Iterator[str]:
    roles = answered()
    known = [known_in(profile.release) for profile in PROFILES]
    for code in sorted(RequestCode):
        if code not in roles or OWN_FROM < code < OWN_FROM + 10_000:
            continue
        answers = [knows(code) for knows in known]
        if not all(answers):
            cells = " | ".join("yes" if answer else "" for answer in answers)
            yield f"| {int(code)} | `{code.name}` | {cells} |"


def _rule_rows(part: str, cls: type[Any]) -> Iterator[str]:
    said = _sentences(cls)
    for field in dataclasses.fields(cls):
        values = [_text(_part(profile, part), field.name) for profile in PROFILES]
        yield f"| {said[field.name]} | {' | '.join(values)} |"


def _part(profile: Profile, part: str) -> Any:
    return getattr(profile, part)


def _text(part: Any, name: str) -> str:
    value = getattr(part, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(f"{each:,}" for each in value)
    return "-" if value is None else f"`{value}`"


def _sentences(cls: type[Any]) -> dict[str, str]:
    """Field -> the text below it."""
    tree = ast.parse(inspect.getsource(cls))
    body = tree.body[0]
    assert isinstance(body, ast.ClassDef)
    said = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(text, ast.Expr)
            assert isinstance(text.value, ast.Constant)
            said[field.target.id] = " ".join(str(text.value.value).split())
    return said
