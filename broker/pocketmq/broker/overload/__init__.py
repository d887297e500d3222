"""Overload protection: which requests are refused while the broker is too busy."""
