"""Receiving: push, pull and lite pull consumers (C-1 to C-72, L-1 to L-7)."""
