"""What all members of a group must compute alike: which queue belongs to which member.

A group of consumers shares the queues of a topic without a coordinator. Each member gets the same
two lists, the topic's queues and the group's client ids, sorts both in the same order (A-1), runs
the same deterministic function (the allocation strategy), and keeps only its own part of the
result. As long as the lists are equal, the parts do not overlap and leave nothing out:

    queues   q0 q1 q2 q3 q4 q5 q6 q7      members   c1 c2 c3      strategy   AVG

    c1 computes  c1 [q0 q1 q2]  c2 [q3 q4 q5]  c3 [q6 q7]   and keeps q0 q1 q2
    c2 computes  the same                                   and keeps q3 q4 q5
    c3 computes  the same                                   and keeps q6 q7

While the lists differ (a member has not heard of another yet), a queue can have two owners or
none; the next rebalance with equal lists ends that. Messages may be delivered twice meanwhile.

Clients compute this in their rebalance. From RocketMQ 5 on a broker can compute it for them
(QUERY_ASSIGNMENT), which is why it stands below the roles. Everything here is pure.

    strategy.py      the interface of a strategy, the checks and the sort order that all share
    averagely.py     AVG, the default: blocks of neighbouring queues
    by_circle.py     AVG_BY_CIRCLE, consistent_hash.py, by_config.py, machine_room.py,
                     machine_room_nearby.py: the others
    by_name.py       a strategy by the name that a user types
    preview.py       the parts of all members side by side, to look at and to compare
    steps.py         the events and instructions of a rebalance round
"""
