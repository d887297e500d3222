"""Options: declared once as the fields of a dataclass, filled from flags, files and variables.

Read `options.py` first, then `config.py`, which says where a value may come from. `live_options.py`
changes options of a running process (O-2 to O-8).
"""
