"""How a group shares the queues of a topic (C-20 to C-30).

Which queues are ours is computed in `pocketmq.protocol.allocation`; read `averagely.py` there
first. Here is what follows from the result. Read in this order:

    claims.py       the queues that are ours, and what is known of each. Pure
    planner.py      which queues to give up, to lock, to look up and to pull. Pure
    rebalancer.py   collects what the planner needs to know, and carries out its instructions
    service.py      when that happens: every 20 s, and when a broker says that the group changed
"""
