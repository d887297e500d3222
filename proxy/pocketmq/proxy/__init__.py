"""The door of RocketMQ 5's SDKs: a gRPC proxy in front of brokers, PocketMQ's or RocketMQ's."""
