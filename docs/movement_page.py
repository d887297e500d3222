"""How many queues change owner when a group grows or shrinks by one: a table and a chart.

Deterministic, so that CI notices when a strategy moves more or less than the page says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.by_circle import AllocateMessageQueueAveragelyByCircle
from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
from pocketmq.protocol.allocation.consistent_hash import AllocateMessageQueueConsistentHash
from pocketmq.protocol.allocation.machine_room import AllocateMessageQueueByMachineRoom, room_of
from pocketmq.protocol.allocation.machine_room_nearby import AllocateMachineRoomNearby
from pocketmq.protocol.allocation.preview import StrategyOf, moved, preview
from pocketmq.protocol.messages.message import MessageQueue

ROOMS = ("east", "west")
QUEUES = [
    MessageQueue("orders", f"{room}@broker-{letter}", number)
    for room, letters in zip(ROOMS, ("ab", "cd"), strict=True)
    for letter in letters
    for number in range(16)
]
MEMBERS = [f"{ROOMS[at % 2]}@10.0.0.{at + 1}#{4000 + 37 * at}" for at in range(17)]
SIZES = range(1, len(MEMBERS))


class _RoomsInNames:
    def broker_deploy_in(self, message_queue: MessageQueue) -> str:
        return room_of(message_queue.broker_name) or ""

    def consumer_deploy_in(self, client_id: str) -> str:
        return room_of(client_id) or ""


def _strategies() -> dict[str, StrategyOf]:
    averagely = AllocateMessageQueueAveragely()
    circle = AllocateMessageQueueAveragelyByCircle()
    ring = AllocateMessageQueueConsistentHash()
    room = AllocateMessageQueueByMachineRoom(ROOMS)
    nearby = AllocateMachineRoomNearby(averagely, _RoomsInNames())
    lists = {
        member: AllocateMessageQueueByConfig(QUEUES[at :: len(MEMBERS)])
        for at, member in enumerate(MEMBERS)
    }
    return {
        averagely.name: lambda _: averagely,
        circle.name: lambda _: circle,
        ring.name: lambda _: ring,
        room.name: lambda _: room,
        nearby.name: lambda _: nearby,
        AllocateMessageQueueByConfig.name: lists.__getitem__,
    }


@dataclass(frozen=True)
class Movement:
    """A step between n and n + 1 members, the mean over who of the n + 1 it is."""

    moved: float
    """Queues that change owner."""
    needless: float
    """Of these, queues that neither come from nor go to the one member."""


def movement(strategy_of: StrategyOf, members: Sequence[str]) -> Movement:
    """What changes hands when one of the members leaves, and again when it comes back."""
    whole = preview(strategy_of, QUEUES, members)
    count, own = [], []
    for leaver in members:
        rest = preview(strategy_of, QUEUES, [each for each in members if each != leaver])
        count.append(moved(whole, rest))
        own.append(sum(leaver in owners for owners in whole.owners().values()))
    return Movement(mean(count), mean(count) - mean(own))


def movements() -> dict[str, list[Movement]]:
    """Strategy -> the steps 1-2, 2-3, ... members."""
    return {
        name: [movement(strategy_of, MEMBERS[: size + 1]) for size in SIZES]
        for name, strategy_of in _strategies().items()
    }


def movement_page() -> str:
    """The page."""
    found = movements()
    shown = [size for size in SIZES if size in (1, 2, 3, 4, 6, 8, 12, 16)]
    lines = [
        "# Queues that change owner",
        "",
        "Made by `make docs` from the strategies themselves; do not edit.",
        "",
        f"{len(QUEUES)} queues on 4 brokers in 2 rooms; one member joins n others, or leaves them.",
        "It does not matter which: what a join moves, the leave moves back.",
        "Each figure is the mean over which of the n + 1 members it is.",
        "In brackets: the needless part, queues that neither come from that member nor go to it.",
        "",
        "![queues that change owner, by strategy](movement.svg)",
        "",
        "| strategy | " + " | ".join(f"{size} and 1" for size in shown) + " |",
        "|---|" + "---:|" * len(shown),
        *(
            f"| `{name}` | " + " | ".join(_cell(steps[size - 1]) for size in shown) + " |"
            for name, steps in found.items()
        ),
        "",
        "- `AVG` gives blocks, so everybody's block shifts when one member comes or goes.",
        "- `AVG_BY_CIRCLE` deals anew: most queues move, whoever it was.",
        "- `CONSISTENT_HASH` moves only what it must, the member's own share; the price is uneven",
        "  shares.",
        "- `MACHINE_ROOM`, here with both rooms chosen, has blocks as `AVG`; the remainder is",
        "  dealt last, so that the blocks shift further.",
        "- `MACHINE_ROOM_NEARBY-AVG` moves queues inside one room only, unless a room loses its",
        "  last member.",
        "- `CONFIG` gives nobody else's queues to anybody: a leaver's rest until it is back.",
        "",
        "`pocketmq group simulate TOPIC --clients N --strategy NAME` tries a topic of yours.",
        "",
    ]
    return "\n".join(lines)


def _cell(step: Movement) -> str:
    return f"{step.moved:.1f} ({step.needless:.1f})"


# -- the chart ------------------------------------------------------------------------------------

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 50, 210, 30, 50
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8d6a9f", "#e08e00", "#555555")


def movement_chart() -> str:
    """Queues that change owner against the number of members, as SVG."""
    found = movements()
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(size: int) -> float:
        return LEFT + (size - SIZES[0]) * (right - LEFT) / (SIZES[-1] - SIZES[0])

    def y(count: float) -> float:
        return bottom - count * (bottom - TOP) / len(QUEUES)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18">queues of {len(QUEUES)} that change owner '
        "when one member joins or leaves</text>",
        f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">'
        "other members</text>",
    ]
    for count in range(0, len(QUEUES) + 1, 16):
        lines += [
            f'<line x1="{LEFT}" x2="{right}" y1="{y(count):.1f}" y2="{y(count):.1f}" '
            'stroke="#dddddd"/>',
            f'<text x="{LEFT - 8}" y="{y(count) + 4:.1f}" text-anchor="end">{count}</text>',
        ]
    for size in SIZES:
        if size == 1 or size % 2 == 0:
            lines.append(
                f'<text x="{x(size):.1f}" y="{bottom + 18}" text-anchor="middle">{size}</text>'
            )
    lines += _curves(found, x, y)
    return "\n".join([*lines, "</svg>", ""])


def _curves(
    found: Mapping[str, Sequence[Movement]],
    x: Callable[[int], float],
    y: Callable[[float], float],
) -> list[str]:
    """A line for each strategy, and its name in the legend."""
    lines = []
    for at, ((name, steps), colour) in enumerate(zip(found.items(), COLOURS, strict=True)):
        points = " ".join(
            f"{x(size):.1f},{y(step.moved):.1f}" for size, step in zip(SIZES, steps, strict=True)
        )
        dashes = ' stroke-dasharray="6 4"' if at >= 3 else ""
        stroke = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        legend_x, legend_y = WIDTH - RIGHT + 20, TOP + 20 * at + 10
        lines += [
            f'<polyline points="{points}" {stroke}/>',
            f'<line x1="{legend_x}" x2="{legend_x + 24}" y1="{legend_y}" y2="{legend_y}" '
            f"{stroke}/>",
            f'<text x="{legend_x + 30}" y="{legend_y + 4}" font-size="10">{name}</text>',
        ]
    return lines
