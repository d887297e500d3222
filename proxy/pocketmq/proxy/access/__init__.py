"""Who calls an RPC, and what it needs: RocketMQ's ACL 2.0 at the gRPC door (G-6, G-140, G-141)."""
