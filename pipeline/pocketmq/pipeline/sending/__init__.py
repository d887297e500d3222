"""Rows as messages: encoded, sent in order per queue, and kept where they cannot be sent."""
