"""RocketMQ's ACL 1.0 (until 5.3.2): accounts and permissions in `plain_acl.yml`, watched.

addresses.py        patterns of client addresses
accounts.py         accounts and what they may do; pure
needs.py            what a request needs
plain_guard.py      checks requests
migration.py        accounts as users and rules of ACL 2.0
files.py            reads, watches and writes the files
changes.py          what requests change in them; pure
plain_processor.py  requests 50 to 53, which do that
"""
