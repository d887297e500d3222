"""Pulling: one service of a client asks brokers for the messages of all queues that it owns."""
