"""TLS of a role or client, from options and files: what `protocol/transport/tls/` is given."""
