"""Slaves that act as master while their own is gone (Z-1 to Z-12); off by default.

    every 1 s   a heartbeat to all name servers (904); a slave asks who is in its group (901)
    905         a name server tells the same sooner
    906         a master that returns tells where its stream is, before it is online

A slave whose id is the least of its group acts: name servers show it as id 0, so it is pulled
from, locks queues and takes offsets. It never writes to its log. A master that returns takes the
offsets of its slaves before name servers hear of it.

Start with `group_view.py`, then `members.py` (what a slave does) and `preparation.py` (what a
master does before it is online).
"""
