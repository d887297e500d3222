"""The nameserver: who is alive, and which broker holds which queues of a topic.

Import from the submodules (`pocketmq.nameserver.server` holds `NameServer`): a role process loads
only what it needs.
"""
