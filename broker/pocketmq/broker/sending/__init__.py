"""Sends, and messages that consumers send back: checks, what is stored, the answers."""
