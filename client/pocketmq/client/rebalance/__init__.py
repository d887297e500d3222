"""How a group shares the queues of a topic (behaviour sheet 5.3, 6).

Read in this order:

    averagely.py    what a strategy does: two sorted lists in, my queues out; no coordination at all
    strategy.py     the interface, and the checks that by_circle.py and the others share
    planner.py      what follows from the answer: which queues to drop, lock, look up, pull
    rebalancer.py   finds out what the planner wants to see, and does what it says
    service.py      when that happens: every 20 s, and when a broker says that the group changed
"""
