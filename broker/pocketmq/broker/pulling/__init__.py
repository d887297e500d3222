"""Pulls: checks, reads, long polling, and pull offsets of broadcasting groups."""
