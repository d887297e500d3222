"""Lab 2: brokers stop in three ways; the program says when nameservers forget them."""

from __future__ import annotations

from typing import Final

from pocketmq.cluster.labs.program import Program
from pocketmq.cluster.labs.trial import Trial

BROKERS: Final = ["broker-a", "broker-b"]
LEFT: Final = ["broker-b"]

FIRST_REGISTRATION_S: Final = 10
REGISTRATION_S: Final = 30
SCAN_S: Final = 5
BETWEEN_S: Final = 2

EXPIRY_WHY: Final = (
    "the scan that forgets a broker is the first one that finds its last registration more than "
    "120 s old (N-2, N-3, N-21)"
)
CLOSED_WHY: Final = (
    "when a process is killed the system closes its connections, and a nameserver that loses "
    "the connection of a broker forgets it at once (N-22)"
)
LEAVE_WHY: Final = "a broker that shuts down normally unregisters first (B-10)"


async def judge(trial: Trial) -> None:
    """See the lab's page."""
    record, cluster = trial.record, trial.cluster
    await _unfrozen(trial)
    topic = await trial.topic("orders", 4)
    began_ms = cluster.time_ms()
    async with trial.program(LAB_TOPIC=topic) as program:
        record.stage()
        record.note("both brokers run")
        await _asked(trial, program, BROKERS)
        record.stage()
        first_ms = await _restarted(trial, topic)
        for after_s in (1, *trial.random.sample(range(2, REGISTRATION_S), 2)):
            await _frozen(trial, program, topic, first_ms, after_s)
        await _asked(trial, program, BROKERS)
        record.stage()
        # Another broker each time: to start one again takes longer than all questions together.
        await _ended(trial, program, topic, ("broker-a", "killed", CLOSED_WHY))
        record.stage()
        await _ended(trial, program, topic, ("broker-b", "stopped", LEAVE_WHY))
        record.note(
            f"{(cluster.time_ms() - began_ms) / 1000:g} s of the cluster's time have passed"
        )


async def _asked(trial: Trial, program: Program, brokers: list[str]) -> None:
    trial.record.expect(
        "who is in the route, asked at NAMESRV_ADDR",
        wanted={"brokers": brokers},
        found=await program.ask({"ask": "route"}, "the brokers in the route"),
        why="GET_ROUTEINFO_BY_TOPIC (105) answers with the brokers of the topic; name them sorted",
    )


async def _unfrozen(trial: Trial) -> None:
    """Undo what an earlier check of this cluster left when it came to its end."""
    # A failed check may have left a broker frozen or stopped.
    for broker in BROKERS:
        state = trial.cluster.roles.state(broker)
        if state == "frozen":
            await trial.cluster.thaw(broker)
        elif state == "ended":
            await trial.cluster.restart(broker)
    async with trial.admin() as admin:

        async def both_are_known() -> bool:
            return sorted(await admin.brokers()) == BROKERS

        await trial.until(both_are_known, "both brokers at the nameserver", "")


async def _restarted(trial: Trial, topic: str) -> int:
    """Start broker-a anew between two scans; when it registered.

    Otherwise both would happen in the same millisecond, and 120 s be a matter of luck.
    """
    cluster = trial.cluster
    # The nameserver scans every 5 s from its clock's start.
    scans = (cluster.time_ms() - cluster.roles.time_ms()) // 1000 // SCAN_S + 1
    await cluster.advance_to(cluster.roles.time_ms() + 1000 * (SCAN_S * scans + BETWEEN_S))
    await cluster.roles.stop_role("broker-a")
    await cluster.restart("broker-a")
    await _back(trial, topic)
    trial.record.note(f"broker-a is started again, {BETWEEN_S} s after a scan")
    return cluster.time_ms()


async def _frozen(trial: Trial, program: Program, topic: str, first_ms: int, after_s: int) -> None:
    """Freeze a broker some seconds after it registered, and see when it is forgotten."""
    cluster, record = trial.cluster, trial.record
    since_s = (cluster.time_ms() - first_ms) / 1000 - FIRST_REGISTRATION_S
    rounds = max(0, int(since_s // REGISTRATION_S) + 1)
    registered_ms = first_ms + 1000 * (FIRST_REGISTRATION_S + REGISTRATION_S * rounds)
    stopped_ms = registered_ms + 1000 * after_s
    # In one step the broker may be there, and register, before the nameserver's clock has moved.
    await cluster.advance_to(registered_ms - 1)
    await cluster.advance_to(stopped_ms)
    scan_s = SCAN_S - (stopped_ms - cluster.roles.time_ms()) // 1000 % SCAN_S
    await cluster.freeze("broker-a")
    record.note(f"broker-a, registered {after_s} s ago, is frozen; the next scan is in {scan_s} s")
    said = await program.ask(
        {"ask": "gone", "how": "frozen", "registered_s": after_s, "scan_s": scan_s},
        "when broker-a is gone",
    )
    # At each scan, and around 120 s, which people expect.
    looks = sorted({*range(scan_s, 135, SCAN_S), 119, 121})
    gone_s = None
    # Before 85 s no broker can have expired, and each look takes time.
    for at_s in (each for each in looks if each >= 85):
        await cluster.advance_to(stopped_ms + 1000 * at_s)
        if await _brokers(trial, topic) == LEFT:
            gone_s = at_s
            break
        if at_s in (119, 121):
            record.note(f"{at_s} s after the stop: broker-a is in the route")
    assert gone_s is not None, "a frozen broker stayed in the route"
    record.expect(
        f"{gone_s} s after the stop broker-a is gone from the route",
        wanted={"gone_after_s": gone_s}, found=said, why=EXPIRY_WHY,
    )  # fmt: skip
    await cluster.thaw("broker-a")
    await _back(trial, topic)


async def _ended(trial: Trial, program: Program, topic: str, ending: tuple[str, str, str]) -> None:
    """End the process of a broker; nameservers notice without any time passing."""
    cluster, record = trial.cluster, trial.record
    broker, how, why = ending
    said = await program.ask(
        {"ask": "gone", "how": how, "registered_s": 7, "scan_s": 1}, f"when {broker} is gone"
    )
    if how == "killed":
        await cluster.kill(broker)
    else:
        await cluster.roles.stop_role(broker)
    record.note(f"{broker} is {how}, 7 s after it registered, 1 s before the next scan")

    async def is_gone() -> bool:
        return broker not in await _brokers(trial, topic)

    await trial.until(is_gone, f"the route without {broker}", why)
    record.expect(
        f"no time has passed, and {broker} is gone from the route",
        wanted={"gone_after_s": 0}, found=said, why=why,
    )  # fmt: skip


async def _brokers(trial: Trial, topic: str) -> list[str]:
    async with trial.admin() as admin:
        route = await admin.route(topic)
    return sorted(each.broker_name for each in route.queue_datas) if route else []


async def _back(trial: Trial, topic: str) -> None:
    async def is_back() -> bool:
        return await _brokers(trial, topic) == BROKERS

    await trial.until(is_back, "broker-a in the route again", "it registers when it runs again")
