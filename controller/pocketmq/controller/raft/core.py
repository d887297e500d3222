"""`Raft`: one member of a group that agrees on the order of commands. Pure.

The shell tells it what happened, always with `now`, and then carries out `take()`:

    raft.receive("c2", message, now)      or tick(now), propose(command, now), stored(number)
    step = raft.take()
    step.write      first onto the disk, synced; then `raft.stored(step.write.number)`
    step.messages   then onto the network; they may be lost, doubled and reordered
    step.applied    at once to the state machine, in this order

Three members, the leader c1 dies (election time-out 1 s, drawn anew from 1 s to 2 s each time):

    t = 0.0   c1 sent its last heartbeat; it commits entry 7, c2 has it, c3 has only 6
    t = 1.3   c3 is the first to miss it, and asks for pre-votes: c2's log is longer, it refuses
    t = 1.8   c2 asks for pre-votes in term 3; c3 has not heard of a leader for 1 s, it grants
    t = 1.8   c2 becomes candidate of term 3: term and vote go to the disk, then it asks for votes
    t = 1.8   c3 grants, after its disk; c2 leads, and appends an empty entry 8 of term 3
    t = 1.8   c3 has entries 7 and 8: both are committed with 8, as its term is c2's own

What Raft's paper leaves open is decided so: a member that hears a leader grants nobody a vote, also
right after its start, so that a leader whose heartbeats a majority answered less than a time-out
ago knows that nobody else leads (`serves`). A leader that no majority answers steps down.
"""

from __future__ import annotations

from random import Random

from pocketmq.controller.errors import (
    ForeignLogError,
    NotLeadingError,
    RaftMessageError,
    TooManyProposalsError,
)
from pocketmq.controller.raft.group import Group, Role, Step
from pocketmq.controller.raft.leadership import NEVER, Leadership
from pocketmq.controller.raft.log import RaftLog
from pocketmq.controller.raft.messages import (
    Append,
    AppendReply,
    Entry,
    Envelope,
    Install,
    Message,
    Stored,
    VoteReply,
    VoteRequest,
)
from pocketmq.controller.raft.unwritten import Unwritten

MOST_UNCOMMITTED = 1024
"""Proposals that may wait for a majority (as in RocketMQ's scheduler, D-52)."""

MOST_TERM = 2**62
"""No group gets so far by elections; a higher one is an error, and would leave no term above it."""

LEASE_SHARE = 0.8
"""Share of the election time-out for which a majority's answer counts: clocks drift."""


class Raft:
    """One member.

    Args:
        group: Who it is, and with whom.
        stored: What it finds on its disk.
        random: Draws the election time-outs.
        now: Seconds; every later `now` is no smaller.
    """

    def __init__(self, group: Group, stored: Stored, random: Random, now: float) -> None:
        self.group = group
        self.term = stored.term
        self.vote = stored.vote
        self.log = RaftLog(stored.snapshot, stored.entries)
        self.role = Role.FOLLOWER
        self.leader = ""
        """Who leads in this term, as far as this member knows."""
        self.commit_index = stored.snapshot.index
        self._random = random
        self._now = now
        self._heard_at = now  # before the restart it may have told a leader that it follows
        self._deadline = 0.0
        self._votes: set[str] = set()
        self._leading = Leadership((), first_index=0, since=NEVER)
        """Of the term in which it led last."""
        self._step = Step()
        self._unwritten = Unwritten()
        if group.others:
            self._draw_deadline()
        else:  # nobody can lead in its place
            self._deadline = now
        # The state machine starts from the snapshot, which includes everything before it.
        if stored.snapshot.index:
            self._step.applied.append(stored.snapshot)

    # -- reading --------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether it believes so; another may lead in a higher term already, see `serves`."""
        return self.role is Role.LEADER

    def serves(self, now: float) -> bool:
        """Whether it leads, has applied everything committed before, and nobody else can lead yet.

        Then what its state machine says is the present truth, and may be read without a command.
        """
        # Entries committed before this leadership may not be applied here yet.
        if not self.is_leader or self.commit_index < self._leading.first_index:
            return False
        # A majority answered less than a time-out ago, so nobody else can have been elected since.
        answered_at = self._leading.answered_at(self.group.majority, now)
        return now - answered_at < self.group.election_s * LEASE_SHARE

    @property
    def is_idle(self) -> bool:
        """Whether every entry is committed: the state machine then knows all that was proposed."""
        return self.commit_index == self.log.last_index

    @property
    def next_deadline(self) -> float:
        """When `tick` should be called next."""
        if self.is_leader:
            return self._leading.beat_at + self.group.heartbeat_s
        return self._deadline

    # -- events ---------------------------------------------------------------------------------

    def take(self) -> Step:
        """What is to be done since the last call."""
        step, self._step = self._step, Step()
        step.write = self._unwritten.take(self.term, self.vote, self.log)
        return step

    def stored(self, number: int) -> None:
        """All writes up to this number survive a power cut now."""
        for term, index in self._unwritten.done(number):
            # Writes of an older term may be of entries that were replaced since.
            if term != self.term:
                continue
            if self.is_leader:  # in its own term it cut nothing off
                self._leading.own_match = index
            elif self.role is Role.CANDIDATE:
                # The own vote counts only when it is on the disk: otherwise it could be given
                # twice.
                self._count_vote(self.group.own_id)
        self._advance_commit()

    def tick(self, now: float) -> None:
        """Time has passed."""
        self._now = now
        if self.is_leader:
            answered_at = self._leading.answered_at(self.group.majority, now)
            # No majority has answered for a time-out: another member may lead, so this one steps
            # down.
            if now - max(answered_at, self._leading.since) > self.group.election_s:
                self._follow(self.term, leader="")
            elif now >= self._leading.beat_at + self.group.heartbeat_s:
                self._beat()
        elif now >= self._deadline:
            # A pre-vote first, so that a member that was cut off does not raise the term of a
            # working group.
            self._ask_for_votes(is_pre_vote=True)

    def propose(self, command: str, now: float) -> Entry:
        """Append a command; it is decided when the entry comes back in `Step.applied`.

        If another entry comes back at its index, the command was lost with a change of leader.

        Raises:
            NotLeadingError: another member leads, or none.
            TooManyProposalsError: too many wait for a majority already.
        """
        self._now = now
        if not self.is_leader:
            raise NotLeadingError(self.leader)
        # Without a majority, only so many commands may wait (D-52).
        if self.log.last_index - self.commit_index >= MOST_UNCOMMITTED:
            raise TooManyProposalsError(MOST_UNCOMMITTED)
        entry = self._append(command)
        for member in self.group.others:
            # While an append is under way, its reply sends the next one, and so does each
            # heartbeat.
            if not self._leading.progress[member].is_waiting:
                self._send_entries(member)
        return entry

    def compact(self, index: int, state: str) -> None:
        """The state machine's state after the entry at `index`, which has been applied."""
        if index <= self.log.snapshot.index:
            return
        # Uncommitted entries may still be replaced, so they must not be in a snapshot.
        if index > self.commit_index:
            raise ValueError(
                f"entry {index} is not committed; the last committed entry is {self.commit_index}"
            )
        self.log.compact(index, state)
        # The journal is written anew, because its first entries are gone.
        self._unwritten.replace_all()

    def receive(self, sender: str, message: Message, now: float) -> None:
        """A message of another member.

        Raises:
            RaftMessageError: no member of this group sends that; nothing has changed.
            ForeignLogError: a leader would overwrite what is committed here; nothing has changed,
                and this member should stop.
        """
        self._now = now
        self._check(sender, message)
        match message:
            case VoteRequest():
                # Decide on the vote before taking the higher term: there may be a leader already.
                self._vote_asked(sender, message)
                return
            # A granted pre-vote is only counted; it changes no term.
            case VoteReply(is_pre_vote=True, is_granted=True):
                if self.role is Role.PRE_CANDIDATE and message.term == self.term + 1:
                    self._count_vote(sender)
                return
        # A higher term in any message: this member is behind, and follows.
        if message.term > self.term:
            self._follow(message.term, leader="")
        match message:
            case VoteReply():
                # Votes for an older candidacy do not count.
                is_ours = self.role is Role.CANDIDATE and message.term == self.term
                if is_ours and message.is_granted and not message.is_pre_vote:
                    self._count_vote(sender)
            case Append():
                self._append_came(sender, message)
            case Install():
                self._install_came(sender, message)
            case AppendReply():
                self._append_answered(sender, message)

    def _check(self, sender: str, message: Message) -> None:
        # Nothing is taken from members of an older membership.
        if sender not in self.group.others:
            raise RaftMessageError(
                sender,
                "the sender must be another member of this controller group, whose members are "
                f"{', '.join(self.group.members)}",
            )
        if not 0 <= message.term <= MOST_TERM:
            raise RaftMessageError(
                sender, f"the term must be from 0 to {MOST_TERM}, but is {message.term}"
            )
        # Indices have no gaps: an entry at the wrong place is damage.
        if isinstance(message, Append):
            for index, entry in enumerate(message.entries, message.previous_index + 1):
                if entry.index != index:
                    raise RaftMessageError(
                        sender, f"the message has entry {entry.index} where entry {index} must be"
                    )
                # Committed entries are never replaced: such a leader has another history.
                is_final = index <= self.commit_index and message.term >= self.term
                if is_final and self.log.term_at(index) not in (None, entry.term):
                    raise ForeignLogError(sender, index)

    # -- election -------------------------------------------------------------------------------

    # role            goes on to        when
    # FOLLOWER        PRE_CANDIDATE     it has heard no leader for a time-out
    # PRE_CANDIDATE   CANDIDATE         a majority would vote for it: term and vote change only now
    # CANDIDATE       LEADER            a majority voted, its own vote from the disk
    # CANDIDATE       PRE_CANDIDATE     its time-out is over: nobody won
    # LEADER          FOLLOWER          no majority has answered it for a time-out
    # any             FOLLOWER          a higher term, or a leader in its own term
    def _ask_for_votes(self, *, is_pre_vote: bool) -> None:
        self._draw_deadline()
        self.leader = ""
        self._votes = set()
        if is_pre_vote:
            # A pre-vote asks about the next term; only a real vote raises the term.
            self.role = Role.PRE_CANDIDATE
            term = self.term + 1
        else:
            self.role = Role.CANDIDATE
            self.term, self.vote = self.term + 1, self.group.own_id
            # The own vote must be on the disk before others are asked: otherwise it could be given
            # twice.
            self._unwritten.change()
            term = self.term
        request = VoteRequest(term, self.log.last_index, self.log.last_term, is_pre_vote)
        for member in self.group.others:
            self._send(member, request)
        if is_pre_vote:  # a real vote of its own counts when it is on the disk
            self._count_vote(self.group.own_id)

    def _count_vote(self, member: str) -> None:
        self._votes.add(member)
        if len(self._votes) < self.group.majority:
            return
        if self.role is Role.PRE_CANDIDATE:
            self._ask_for_votes(is_pre_vote=False)
        else:
            self._lead()

    def _vote_asked(self, sender: str, request: VoteRequest) -> None:
        if self._is_led():
            return  # not even the higher term is taken: a leader is there
        if not request.is_pre_vote and request.term > self.term:
            self._follow(request.term, leader="")
        # A shorter log must not win: committed entries would be lost (I-14).
        is_covered = self.log.is_covered_by(request.last_index, request.last_term)
        if request.is_pre_vote:
            # A pre-vote is for a term that has not begun.
            is_granted = request.term > self.term and is_covered
        else:
            # One vote in each term, to one member; the disk keeps it.
            is_free = self.vote in ("", sender)
            is_granted = request.term == self.term and is_free and is_covered
            if is_granted:
                self.vote = sender
                self._unwritten.change()
                # Restart the time-out, so that the candidate has a chance to lead.
                self._draw_deadline()
        term = request.term if is_granted else self.term
        self._send(sender, VoteReply(term, is_granted, request.is_pre_vote))

    def _is_led(self) -> bool:
        """Whether somebody may rely on it that this member votes for nobody else."""
        return self.is_leader or self._now - self._heard_at < self.group.election_s

    def _lead(self) -> None:
        self.role, self.leader = Role.LEADER, self.group.own_id
        # Only with an entry of its own term can a leader commit older ones (D-53).
        entry = self._append("")
        self._leading = Leadership(self.group.others, entry.index, self._now)
        self._beat()

    def _follow(self, term: int, leader: str) -> None:
        # This member has not voted in a new term yet, and the disk has to know that.
        if term > self.term:
            self.term, self.vote = term, ""
            self._unwritten.change()
        # A leader or candidate draws a new deadline when it steps back, so that members rarely ask
        # together.
        if self.role is not Role.FOLLOWER:
            self.role = Role.FOLLOWER
            self._draw_deadline()
        self.leader = leader

    def _draw_deadline(self) -> None:
        # One to two time-outs at random, so that two members rarely ask together.
        self._deadline = self._now + self.group.election_s * (1 + self._random.random())

    # -- replication, as leader -----------------------------------------------------------------

    def _append(self, command: str) -> Entry:
        entry = self.log.append(self.term, command)
        self._unwritten.append(entry)
        return entry

    def _beat(self) -> None:
        self._leading.beat_at = self._now
        for member in self.group.others:  # heartbeat, and what was lost
            self._send_entries(member)

    def _send_entries(self, member: str) -> None:
        progress = self._leading.progress[member]
        progress.is_waiting = True
        previous = progress.next_index - 1
        previous_term = self.log.term_at(previous)
        # The previous entry is in the snapshot: send the whole state instead.
        if previous_term is None:
            self._send(member, Install(self.term, self.log.snapshot, self._now))
            return
        entries = self.log.batch(progress.next_index)
        self._send(
            member,
            Append(self.term, previous, previous_term, entries, self.commit_index, self._now),
        )

    def _append_answered(self, sender: str, reply: AppendReply) -> None:
        # A reply of another term says nothing about this leadership.
        if not self.is_leader or reply.term != self.term:
            return
        progress = self._leading.progress[sender]
        progress.is_waiting = False
        progress.answered_at = max(progress.answered_at, reply.sent_at)
        if not reply.is_match:
            # The member is behind or its log differs: go back to what it says, by at least one
            # entry.
            progress.next_index = max(1, min(progress.next_index - 1, reply.index + 1))
            self._send_entries(sender)
            return
        if reply.index > self.log.last_index:
            return  # no member of ours says that: it claims what was never appended
        # Never backwards: answers may come out of order.
        progress.match_index = max(progress.match_index, reply.index)
        progress.next_index = max(progress.next_index, progress.match_index + 1)
        self._advance_commit()
        # Send the rest at once, and not with the next heartbeat.
        if progress.next_index <= self.log.last_index:
            self._send_entries(sender)

    def _advance_commit(self) -> None:
        """Commit what a majority has on its disks, once it includes an entry of the own term."""
        if not self.is_leader:
            return
        index = self._leading.match_index(self.group.majority)
        # Entries of older terms may still be replaced, so counting does not commit them. DLedger
        # commits them (D-244).
        if index > self.commit_index and self.log.term_at(index) == self.term:
            self._commit(index)

    # -- replication, as follower ---------------------------------------------------------------

    def _heard_leader(self, sender: str) -> None:
        self._follow(self.term, leader=sender)
        self._heard_at = self._now
        self._draw_deadline()

    def _append_came(self, sender: str, append: Append) -> None:
        # The sender does not know yet that another member leads.
        if append.term < self.term:
            self._send(sender, AppendReply(self.term, False, 0, append.sent_at))
            return
        self._heard_leader(sender)
        previous = append.previous_index
        # The logs differ at the previous entry: look for a common one before it.
        if previous >= self.log.snapshot.index and (
            self.log.term_at(previous) != append.previous_term
        ):
            retry = self.log.retry_from(previous)
            self._send(sender, AppendReply(self.term, False, retry, append.sent_at))
            return
        fresh = self.log.merge(append.entries)
        if fresh:
            # Write the new entries and all after them: those that were there are cut off.
            self._unwritten.overwrite(fresh)
        match = previous + len(append.entries)
        # A follower commits only what it has, even if the leader is further.
        self._commit(min(append.commit_index, match))
        self._send(sender, AppendReply(self.term, True, match, append.sent_at))

    def _install_came(self, sender: str, install: Install) -> None:
        if install.term < self.term:
            self._send(sender, AppendReply(self.term, False, 0, install.sent_at))
            return
        self._heard_leader(sender)
        snapshot = install.snapshot
        # A snapshot of what is committed here brings nothing new.
        if snapshot.index > self.commit_index:
            self.log.install(snapshot)
            self.commit_index = snapshot.index
            self._unwritten.replace_all()
            self._step.applied.append(snapshot)
        self._send(sender, AppendReply(self.term, True, snapshot.index, install.sent_at))

    # -- both -----------------------------------------------------------------------------------

    def _commit(self, index: int) -> None:
        while self.commit_index < index:
            self.commit_index += 1
            self._step.applied.append(self.log.entry(self.commit_index))

    def _send(self, member: str, message: Message) -> None:
        self._step.messages.append(Envelope(member, message))
