"""Stores looked at from outside: listed, read, verified, built anew. None of it serves clients."""
