"""Requests that wait for messages: pulls, and whatever else polls long."""
