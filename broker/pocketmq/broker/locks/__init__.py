"""Locks of orderly consumers on queues."""
