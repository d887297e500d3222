"""Popping in the client: requests, receipts, acks, and what is not settled yet (K-45 to K-48)."""
