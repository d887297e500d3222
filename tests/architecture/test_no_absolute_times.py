"""No absolute time decides whether a test passes: a busy or slow machine is no fault of ours.

What a piece of work costs is compared with another that is timed beside it (`support/cost.py`), and
who waits for something real waits a minute or more.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Container, Iterable, Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

SUPPRESSED = re.compile(r"suppress_health_check=(list\(HealthCheck\)|\[[^\]]*\])")
TESTS = Path(__file__).parents[1]
CLOCKS = {"perf_counter", "process_time", "thread_time", "monotonic", "time"}
"""Of the module `time`; a `Clock` may be one that a test moves."""
COSTS = {"cost_s", "loop_cost_s", "least_s", "turn_s"}
LEAST_S = 60
LIMITS = {
    "eventually": "limit_s",
    "Producer": "send_timeout_ms",
    "TransactionProducer": "send_timeout_ms",
    "Admin": "api_timeout_ms",
    "ask": "timeout_s",
}
TRIES = {"send_timeout_ms", "api_timeout_ms"}
"""What a client gives its requests: 3 s, unless it is told otherwise."""
POSITIONAL = {"timeout": 0, "wait_for": 1}
"""Of asyncio. `timeout=` is looked at whatever is called."""
METHODS = ("settimeout", "wait", "join", "result")
"""Of sockets, events, threads, processes and futures, where they are given one number."""
PACE_S = 1
"""What a loop gives them below that says how often it looks."""
NAMED = ("timeout", "request_timeout")
"""Parameters that are limits, whatever is called; the second is of RocketMQ's Python SDK."""
PROCESSES = (
    "cluster", "console", "control_address", "interop", "parity", "plugin", "recipes", "watching",
)  # fmt: skip
"""Where what is waited for is real: elsewhere networks are in memory, and clocks are moved."""
TICKS = {"support/ticking.py": "when a machine stands still is a matter of its clock"}
TESTED = {
    "architecture/test_no_absolute_times.py": "these rules, on examples",
    "cluster/test_failures.py": "how long nothing happens while a broker is frozen",
    "cluster/histories/test_tap.py": "that nothing comes through",
    "operation/test_membership.py": "that a look does not end before another one",
    "plugin/test_faults.py": "that nothing comes through",
    "proxy/test_consuming.py": "a deadline that is too near",
    "proxy/test_hostile_clients.py": "how long a write waits that nobody reads",
    "proxy/test_hostile_consumers.py": "that nothing comes through",
    "proxy/test_receiving.py": "how often to look, while another clock is moved",
    "interop/record_metrics.py": "how often to look",
    "parity/brokers.py": "how long a broker that starts is asked, again and again",
    "parity/pairs.py": "after which time silence is an answer too",
    "simulation/test_seams.py": "the time of a simulated loop",
    "support/real_rocketmq.py": "how long a broker that starts is asked, again and again",
}
"""Files whose short times are what they are about."""
DEFAULT_TRIES = {
    "cluster/test_failover.py": "a user's producer meets the death of a master",
    "cluster/test_failures.py": "of 32 senders whose broker is killed",
    "cluster/test_fault_proxy.py": "sends that must fail",
    "plugin/test_reports.py": "a producer that must not start",
}
"""Files with clients that keep the 3 s of real time which the tries of a send share."""


def _number(node: ast.expr | None, constants: dict[str, float]) -> float | None:
    """The value of an expression that is made of numbers alone."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return constants.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _number(operand, constants)
            return None if value is None else -value
        case ast.BinOp(left=left, right=right):
            numbers = _number(left, constants), _number(right, constants)
            return None if None in numbers else 1.0  # which one does not matter
    return None


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_measured(node: ast.AST, measured: set[str]) -> bool:
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) if name in measured:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=name)):
                if name in CLOCKS:
                    return True
            case ast.Call(func=ast.Name(id=name)) if name in COSTS | (CLOCKS - {"time"}):
                return True
    return False


def _constants(tree: ast.Module) -> dict[str, float]:
    """The numbers that a module gives names to."""
    found: dict[str, float] = {}
    for each in tree.body:
        match each:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                if (number := _number(value, found)) is not None:
                    found[name] = number
    return found


def compared(tree: ast.Module) -> Iterator[int]:
    """Lines that compare what was measured with a number."""
    constants = _constants(tree)
    measured: set[str] = set()
    for _ in range(2):  # what is made of what was measured
        for each in ast.walk(tree):
            match each:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if _is_measured(value, measured):
                        measured.add(name)
    for each in ast.walk(tree):
        if not isinstance(each, ast.Compare):
            continue
        sides = [each.left, *each.comparators]
        is_ordered = any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in each.ops)
        numbers = [_number(side, constants) for side in sides]
        if is_ordered and any(map(bool, numbers)) and any(_is_measured(s, measured) for s in sides):
            yield each.lineno


def short_limits(tree: ast.Module) -> Iterator[int]:
    """Lines that wait for something real for less than a minute, also in programs in strings."""
    constants = _constants(tree)
    loops = [each for each in ast.walk(tree) if isinstance(each, (ast.For, ast.While))]
    in_loops = {id(each) for loop in loops for each in ast.walk(loop)}
    for each in ast.walk(tree):
        match each:
            case ast.Constant(value=str() as text) if "\n" in text and any(
                f"{name}{mark}" in text for name in WORDS for mark in "(="
            ):
                yield from (each.lineno + line - 1 for line in short_limits(_program(text)))
        if not isinstance(each, ast.Call):
            continue
        name = _called(each)
        given = {keyword.arg: keyword.value for keyword in each.keywords}
        limits = (given[name] for name in (*NAMED, LIMITS.get(name, "")) if name in given)
        limit = next(limits, None)
        match each.func:
            case ast.Attribute(value=ast.Name(id="asyncio")) if name in POSITIONAL:
                limit = limit or next(iter(each.args[POSITIONAL[name] :]), None)
            case ast.Attribute() if name in METHODS and limit is None and len(each.args) == 1:
                given_s = _number(each.args[0], constants)
                if given_s is not None and (given_s >= PACE_S or id(each) not in in_loops):
                    limit = each.args[0]
        number = _number(limit, constants)
        least = LEAST_S * 1000 if LIMITS.get(name, "").endswith("_ms") else LEAST_S
        if number is not None and number < least:
            yield each.lineno


WORDS = {*LIMITS, *POSITIONAL, *METHODS, *NAMED}


def _program(text: str) -> ast.Module:
    """A string as a program; as an empty one if it is none."""
    try:
        return ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return ast.Module([], [])


OTHER_LIMITS = (
    (re.compile(r"\b(?!get)\w*[tT]imeout\w*\(\s*([\d_]+)L?\)"), 1),
    (re.compile(r"[tT]imeout: ([\d_]+)"), 1),
    (re.compile(r"^\s*\}, ([\d_]+)L?\);"), 1),
    (re.compile(r"\((?:\w+, )?([\d_]+)L?, (?:TimeUnit\.)?MILLISECONDS\)"), 1),
    (re.compile(r"\((?:\w+, )?([\d_]+)L?, (?:TimeUnit\.)?SECONDS\)"), 1000),
    (re.compile(r"[tT]imeout\w*\(Duration\.ofSeconds\(([\d_]+)L?\)"), 1000),
)
"""What is given a limit, and its unit in ms: setters, options, callbacks, latches, futures."""


def short_other_limits(source: str) -> Iterator[int]:
    """Lines of a program in Java or JavaScript that wait for less than a minute.

    `== null` expects that nothing comes, which may be short.
    """
    for number, line in enumerate(source.split("\n"), 1):
        if "== null" in line:
            continue
        for limit, unit_ms in OTHER_LIMITS:
            if any(int(each) * unit_ms < LEAST_S * 1000 for each in limit.findall(line)):
                yield number
                break


def default_tries(tree: ast.Module) -> Iterator[int]:
    """Lines that make a client with the usual 3 s."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and (limit := LIMITS.get(_called(each))) in TRIES:
            given = [keyword.arg for keyword in each.keywords]
            if limit not in given:
                yield each.lineno


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _found(
    rule: object,
    words: Iterable[str],
    folders: tuple[str, ...] = ("",),
    but: Container[str] = (),
) -> list[str]:
    """Places that break a rule; files without its words are not even parsed."""
    found = []
    for folder in folders:
        for path in sorted((TESTS / folder).rglob("*.py")):
            name = path.relative_to(TESTS).as_posix()
            text = path.read_text(encoding="utf-8")
            if name not in but and any(f"{word}{mark}" in text for word in words for mark in "(="):
                lines = rule(_tree(text))  # type: ignore[operator]
                found += [f"tests/{name}:{line}" for line in lines]
    return found


def test_what_was_measured_is_compared_with_what_was_measured_too() -> None:
    found = _found(compared, COSTS | CLOCKS, but=TICKS)
    assert found == [], "take a multiple of `unit_s()` (tests/support/cost.py)"


def test_who_waits_for_something_real_waits_a_minute_or_more() -> None:
    found = _found(short_limits, WORDS, but=TESTED)
    assert found == [], "take PATIENCE_S (tests/support/eventually.py)"


def test_so_do_the_programs_in_other_languages() -> None:
    found = [
        f"tests/{name}:{line}"
        for path in sorted([*TESTS.rglob("*.java"), *TESTS.rglob("*.cjs")])
        if (name := path.relative_to(TESTS).as_posix()) not in TESTED
        for line in short_other_limits(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "60 s or more"


def test_sends_to_processes_have_more_than_the_usual_three_seconds() -> None:
    found = _found(default_tries, ["Producer", "Admin"], PROCESSES, DEFAULT_TRIES)
    assert found == [], "send_timeout_ms=PATIENCE_MS (tests/support/eventually.py)"


def test_drawn_examples_may_take_any_time() -> None:
    drawn = hypothesis.settings()
    assert drawn.deadline is None
    assert hypothesis.HealthCheck.too_slow in drawn.suppress_health_check
    found = [
        f"tests/{path.relative_to(TESTS).as_posix()}: {given}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for given in SUPPRESSED.findall(path.read_text(encoding="utf-8"))
        if "too_slow" not in given and "list(HealthCheck)" not in given
    ]
    assert found == [], "a list of one's own takes the place of the one in tests/conftest.py"


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (
            compared,
            "a = time.thread_time()\nb = time.thread_time() - a\nassert b < 5",
            "assert a < 5",
        ),
        (compared, "MOST = 0.5\ntook = cost_s(work)\nassert took < MOST", "assert took < unit_s()"),
        (compared, "assert perf_counter() - began <= 3 * 2", "assert perf_counter() < ends_at"),
        (short_limits, "run(x, timeout=20)", "run(x, timeout=60)"),
        (short_limits, "ANSWER_S: float = 30\ncall(x, timeout=ANSWER_S)", "call(x, timeout=NEAR)"),
        (short_limits, "asyncio.timeout(20)", "asyncio.timeout(LIMIT_S)"),
        (short_limits, "asyncio.wait_for(x, 5)", "asyncio.wait_for(x, 90)"),
        (short_limits, "Producer('p', send_timeout_ms=3_000)", "Producer('p')"),
        (default_tries, "client.Producer('p')", "Producer('p', send_timeout_ms=60_000)"),
        (default_tries, "Admin(nameservers=n)", "Admin(nameservers=n, api_timeout_ms=60_000)"),
        (short_limits, "ask('127.0.0.1:1', 105, timeout_s=5.0)", "ask('127.0.0.1:1', 105)"),
        (short_limits, "process.wait(30)", "process.wait(LIMIT_S)"),
        (short_limits, "asker.settimeout(10)", "asker.settimeout(60)"),
        (short_limits, "thread.join(10)", "', '.join(texts)"),
        (short_limits, "future.result(5)", "future.result()"),
        (short_limits, "assert seen.wait(0.5)", "while 1: seen.wait(0.5)"),
        (short_limits, "Configuration(where, request_timeout=10)", "request_timeout = 10"),
        (short_limits, "run('''\nwait(b, timeout=5)''')", "run('''\nno program wait(5)''')"),
    ],
)
def test_the_rules_find_what_they_are_for(rule: object, bad: str, good: str) -> None:
    assert [*rule(ast.parse(bad))] == [len(bad.split("\n"))]  # type: ignore[operator]
    assert [*rule(ast.parse(good))] == []  # type: ignore[operator]


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("producer.setSendMsgTimeout(30_000);", "producer.setSendMsgTimeout(60_000);"),
        ("}, 10_000);", "}, 60_000);"),
        ("{ requestTimeout: 10000 }", "{ requestTimeout: 60000 }"),
        ("latch.await(40, TimeUnit.SECONDS)", "latch.await(60, TimeUnit.SECONDS)"),
        ("answer.get(500, MILLISECONDS)", "answer.get(LIMIT_S, TimeUnit.SECONDS)"),
        ("setRequestTimeout(Duration.ofSeconds(10))", "setAwaitDuration(Duration.ofSeconds(5))"),
        ("expect(queue.poll(3, SECONDS) != null)", "expect(queue.poll(3, SECONDS) == null)"),
    ],
)
def test_the_rule_for_other_languages_finds_what_it_is_for(bad: str, good: str) -> None:
    assert [*short_other_limits(f"// a\n{bad}\n")] == [2]
    assert [*short_other_limits(f"// a\n{good}\n")] == []
