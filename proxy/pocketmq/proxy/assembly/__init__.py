"""A proxy that is put together and started: options, brokers, server, process."""
