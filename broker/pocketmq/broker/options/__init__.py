"""The options of the subjects, each a base of `BrokerConfig`."""
