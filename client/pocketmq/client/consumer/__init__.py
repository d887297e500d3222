"""Receiving: push, pull and lite pull consumers (behaviour sheet 5, 7.1)."""
