"""Sending: the producer and its pure decisions (behaviour sheet 4)."""
