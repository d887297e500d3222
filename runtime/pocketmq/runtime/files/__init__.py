"""Small files and folders that are replaced as a whole: the old one or the new one survives a cut.

Read `durable_file.py` first; `text_files.py` is the seam below it, for tests and the simulation.
"""
