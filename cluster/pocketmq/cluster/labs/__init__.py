"""Labs: eight exercises, each with a page, a starting file and a judge over the real wire.

Start reading at `catalog.py`, then `check.py`, then any of `judges/`.
"""
