"""The push consumer: its queues, its pulls and pops, and how its parts are put together.

Read `push.py` first; `push_parts.py` makes and connects what it names.
"""
