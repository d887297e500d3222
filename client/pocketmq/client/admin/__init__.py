"""Administration: topics, groups, offsets and messages, for people and tools."""
