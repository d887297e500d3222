"""The deterministic simulation: a whole cluster in one process, run by a seed.

It runs the nameserver, broker and client classes of production and defines none of its own. Only
the seams are others: time (loop.py), network (network.py), disk (disk.py). Start reading in
runner.py.
"""
