"""SDKs of RocketMQ 5 at ports of remoting: they are passed on to a proxy (G-112, G-133)."""
