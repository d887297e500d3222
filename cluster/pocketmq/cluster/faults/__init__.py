"""Faults in front of processes that know nothing of them: a proxy for RocketMQ's own."""
