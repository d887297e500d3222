"""Requests between clients: a reply is handed to whoever asked."""
