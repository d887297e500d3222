"""A failover, step by step, on a clock that only this program moves.

    python scripts/watch_failover.py

Three controllers and three replicas of broker-a, without processes: the controllers are the pure
state machines of `pocketmq.controller`, and this program is their network, their disks and their
time. First the master dies, then the leading controller and the new master together.
"""

from __future__ import annotations

from random import Random

from pocketmq.controller import commands
from pocketmq.controller.election import Candidate
from pocketmq.controller.raft.core import Raft
from pocketmq.controller.raft.group import Group, Role
from pocketmq.controller.raft.messages import Entry, Stored, VoteReply, VoteRequest
from pocketmq.controller.replicas import BY_CONTROLLER, Outcome, Replicas

IDS = ("n0", "n1", "n2")
LATENCY_S = 0.01
STEP_S = 0.01


class Watched:
    """One controller: its state machines, and what it did last."""

    def __init__(self, own_id: str, now: float) -> None:
        self.id = own_id
        self.raft = Raft(Group(own_id, IDS), Stored(), Random(own_id), now)
        self.replicas = Replicas()
        self.role = Role.FOLLOWER
        self.is_alive = True


class Stage:
    """The controllers, their messages, and time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.controllers = {each: Watched(each, self.now) for each in IDS}
        self._under_way: list[tuple[float, str, str, object]] = []
        self._outcomes: list[Outcome] = []

    def say(self, text: str) -> None:
        """Print a line with the time."""
        print(f"{self.now:6.2f} s  {text}")

    @property
    def leader(self) -> Watched | None:
        """The controller that may decide now."""
        for each in self.controllers.values():
            if each.is_alive and each.raft.serves(self.now):
                return each
        return None

    def step(self) -> None:
        """Let a hundredth of a second pass."""
        self.now += STEP_S
        arrived = [each for each in self._under_way if each[0] <= self.now]
        self._under_way = [each for each in self._under_way if each[0] > self.now]
        for _, sender, to, message in arrived:
            target = self.controllers[to]
            if target.is_alive:
                target.raft.receive(sender, message, self.now)  # type: ignore[arg-type]
                self._settle(target)
        for each in self.controllers.values():
            if each.is_alive:
                each.raft.tick(self.now)
                self._settle(each)

    def until_led(self) -> Watched:
        """Let time pass until a controller leads."""
        while (leader := self.leader) is None:
            self.step()
        return leader

    def decide(self, command: commands.Command) -> Outcome:
        """Have the controllers decide a command."""
        leader = self.until_led()
        before = len(self._outcomes)
        leader.raft.propose(commands.encode(command), self.now)
        self._settle(leader)
        while len(self._outcomes) == before:
            self.step()
        return self._outcomes[-1]

    def _settle(self, who: Watched) -> None:
        while True:
            step = who.raft.take()
            if who.role is not who.raft.role:
                who.role = who.raft.role
                self.say(f"{who.id} is {who.role.value} in term {who.raft.term}")
            for each in step.applied:
                if isinstance(each, Entry) and each.command:
                    outcome = who.replicas.apply(commands.decode(each.command))
                    if who.raft.is_leader:
                        self._outcomes.append(outcome)
            for envelope in step.messages:
                self._tell_vote(who, envelope.to, envelope.message)
                arrives_at = self.now + LATENCY_S
                self._under_way.append((arrives_at, who.id, envelope.to, envelope.message))
            if step.write is None:
                return
            who.raft.stored(step.write.number)

    def _tell_vote(self, who: Watched, to: str, message: object) -> None:
        if isinstance(message, VoteRequest):
            what = "would you vote for me" if message.is_pre_vote else "vote for me"
            self.say(f"  {who.id} -> {to}: {what} in term {message.term}?")
        elif isinstance(message, VoteReply):
            self.say(f"  {who.id} -> {to}: {'yes' if message.is_granted else 'no'}")


def show(stage: Stage) -> None:
    """Print what the controllers have agreed on."""
    group = stage.until_led().replicas.groups["broker-a"]
    stage.say(
        f"broker-a: master {group.master_id}, epoch {group.master_epoch}, in sync"
        f" {sorted(group.in_sync)}, set {group.set_epoch}"
    )


def main() -> None:
    """Play it."""
    stage = Stage()
    stage.say("three controllers start, with empty disks")
    stage.until_led()
    for number in (1, 2, 3):
        stage.decide(
            commands.ApplyId("DefaultCluster", "broker-a", number, f"host{number}:10911;1")
        )
    alive = [Candidate(number, 0, 0) for number in (1, 2, 3)]
    stage.decide(commands.Elect("", "broker-a", 1, False, alive, False))
    show(stage)
    stage.say("replicas 2 and 3 have caught up; the master says so")
    stage.decide(commands.AlterSet("broker-a", 1, 1, [1, 2, 3], 1, [1, 2, 3]))
    show(stage)

    stage.say("")
    stage.say("the master, replica 1, is killed; 2 has 900 bytes of log, 3 has 1000")
    alive = [Candidate(2, 1, 900), Candidate(3, 1, 1000)]
    stage.decide(commands.Elect("", "broker-a", BY_CONTROLLER, False, alive, False, 1))
    show(stage)
    stage.say("replica 2 follows the new master, and has caught up")
    stage.decide(commands.AlterSet("broker-a", 3, 2, [2, 3], 3, [2, 3]))
    show(stage)

    stage.say("")
    leader = stage.until_led()
    leader.is_alive = False
    stage.say(f"{leader.id}, which leads the controllers, and replica 3 are killed")
    stage.until_led()
    alive = [Candidate(2, 2, 2000)]
    stage.decide(commands.Elect("", "broker-a", BY_CONTROLLER, False, alive, False, 2))
    show(stage)

    stage.say("")
    stage.say("replica 1 is back. What it has of epoch 1 beyond the end of that epoch is cut")
    stage.decide(commands.AlterSet("broker-a", 2, 3, [1, 2], 5, [1, 2]))
    show(stage)


if __name__ == "__main__":
    main()
