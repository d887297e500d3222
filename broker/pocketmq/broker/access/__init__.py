"""Who may do what: RocketMQ's ACL 2.0. Start with `guard.py`; docs/security.md explains it."""
