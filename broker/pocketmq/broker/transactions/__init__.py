"""Transactions: half messages are stored invisibly, then committed, rolled back, or checked."""
