"""Members of a cluster: they prove to each other that they know its secret."""
