"""The stored record: one message in the commit log, alone and in batches (S-5, S-6, S-46).

Read `record.py` first; `record_check.py` decides whether a sound record stands at a place of the
log. The widths of a record's fields stand in `pocketmq.protocol.store_layout`.
"""
