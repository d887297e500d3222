"""Clock, services, configuration, logs and process start: knows nothing of messages.

Import from the modules themselves; this façade stays empty so that a role pays only for what it
uses.
"""
