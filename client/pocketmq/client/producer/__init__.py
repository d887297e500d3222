"""Sending: the producer and its pure decisions (P-1 to P-70)."""
