"""Bodies by the schemas of their topics: decoded into tables, bad rows aside, evolution checked."""
