"""Everything that starts, stops, shows or fast-forwards a running cluster.

Facade only: `spec`, `supervisor` and `control` are imported by whoever needs them, so that a demo
worker does not load the supervisor.
"""
