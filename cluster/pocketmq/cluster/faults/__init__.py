"""Fault rules for unchanged processes, such as RocketMQ's own: a proxy."""
