"""The deterministic simulation: a whole cluster in one process, decided by a seed.

It runs the nameserver, broker and client classes of production. Only the implementations of the
three seams differ: time (loop.py), network (network.py), disk (disk.py). Start at runner.py.
"""
