"""Every subcommand of RocketMQ's `mqadmin`, asked of both clusters."""
