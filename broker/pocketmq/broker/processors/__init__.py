"""One file per family of requests; each reads a header, asks a manager, writes an answer."""
