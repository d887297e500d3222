"""Transactions, pop groups, timers and requests in a run, each with clients and a ledger.


`plan.py` draws which of them a seed has, and what happens to their clients; `run.py` starts and
watches them. What must hold is in `invariants/services/`, pure. They have their own topics, so the
ledgers of the push groups see nothing of them.
"""
