"""The seam to the file system, and files that are mapped through it, one and in rows."""
