"""Recordings of events as files: `writer.py` writes one, `reader.py` opens one."""
