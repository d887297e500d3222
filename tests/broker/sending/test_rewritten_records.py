"""What a broker writes anew is what RocketMQ 5.3.3 writes (X-3, B-84, B-91, T-105)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pocketmq.runtime.profile import PROFILE_5_3
from support.broker_rig import running_broker
from support.rewriting import LEVELS, REWRITTEN, ROLL_WINDOW_SLOTS, TIMES, Play, stories

GOLDEN: dict[str, list[dict[str, Any]]] = json.loads(REWRITTEN.read_text())
STEP_S = 0.5


async def played(
    path: Path, *, later: dict[str, list[dict[str, Any]]] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """What our broker stored; `later` gets what it has stored an hour later."""
    options = {
        "message_delay_level": LEVELS,
        "timer_roll_window_slot": ROLL_WINDOW_SLOTS,
        "transaction_time_out_ms": TIMES["transactionTimeOut"],
        "transaction_check_interval_ms": TIMES["transactionCheckInterval"],
        "transaction_check_max": TIMES["transactionCheckMax"],
    }
    async with running_broker(path, PROFILE_5_3, **options) as rig:
        voice = await rig.voice()

        async def pause() -> None:
            await rig.advance(STEP_S)

        await Play(voice, pause, rig.clock.time_ms, path / "store").all()
        told = stories(path / "store", rig.broker.address)
        if later is not None:
            for _ in range(60):
                await rig.advance(60)
            later |= stories(path / "store", rig.broker.address)
        return told


def without_faults(way: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """RocketMQ's records without what it loses or doubles, and ours do not.

    A half message that is put back for another check has no flag any more (X-35); each message of a
    batch has those of the request behind its own, and takes the UNIQ_KEY of the batch (B-19).
    """
    if way == "unknown":
        return [record | {"flag": records[0]["flag"]} for record in records]
    if way.startswith("batch-"):
        (record,) = records
        own = record["properties"].index("WAIT=true") + 1
        doubled = record["properties"].index("WAIT=true", own)
        kept = [entry for at, entry in enumerate(record["properties"]) if at != doubled]
        return [record | {"properties": kept}]
    return records


async def test_what_is_written_anew_is_what_rocketmq_writes(tmp_path: Path) -> None:
    ours = await played(tmp_path)
    assert ours.keys() == GOLDEN.keys()
    expected = {way: without_faults(way, records) for way, records in GOLDEN.items()}
    different = [way for way in expected if ours[way] != expected[way]]
    for way in different:
        assert ours[way] == expected[way], f"{way}, one of {different}"


async def test_nothing_comes_back_by_the_delay_that_it_keeps(tmp_path: Path) -> None:  # X-3, K-92
    # Each way ended when its last record was there; an hour later there is no other.
    later: dict[str, list[dict[str, Any]]] = {}
    at_once = await played(tmp_path, later=later)
    assert {way: len(records) for way, records in later.items()} == {
        way: len(records) for way, records in at_once.items()
    }
