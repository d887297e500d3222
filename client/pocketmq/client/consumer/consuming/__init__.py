"""Giving messages to a listener or an iterator, and doing what it answers (C-53 to C-63).

Read `listener.py` first, then `concurrent.py` and `orderly.py`.
"""
