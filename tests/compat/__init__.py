"""Suites of others against PocketMQ, and the ledger of what they do not pass."""
