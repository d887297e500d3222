"""Controller mode: controllers say who is master; this broker does as they say.

    start       who am I (files, 1012, 1013) -> register (1003) -> who is master, or elect (1002)
    every 1 s   heartbeat to all controllers (904)
    every 5 s   who is master (1004); the master: who is in sync (1001)
    1008        a controller tells of an election

Start with `manager.py`. What a change of role does is in `replication/role_changes.py`, who counts
as in sync in `replication/sync_state.py`.
"""
