"""PocketMQ and RocketMQ asked the same. A package, for a script is called `parity` too."""
