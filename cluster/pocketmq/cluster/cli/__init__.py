"""The `pocketmq` command, one file per group of commands."""
