"""What must hold for transactions, pop groups, timers and requests. Pure: one ledger for each."""

from pocketmq.simulation.invariants.services.pops import PopLedger
from pocketmq.simulation.invariants.services.requests import RequestLedger
from pocketmq.simulation.invariants.services.timers import TimerLedger
from pocketmq.simulation.invariants.services.transactions import TransactionLedger

__all__ = ["PopLedger", "RequestLedger", "TimerLedger", "TransactionLedger"]
