"""Jobs over topics, stores and tables: a function each, and a command of `pocketmq pipeline`."""
