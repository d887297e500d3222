"""Users, rules, and which rule decides: what brokers and gRPC proxies share of ACL 2.0."""
