"""The admin client: topics, groups, offsets and messages, for operators and tools."""
