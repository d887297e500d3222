"""A process that has imported the roles' modules, and forks a role on request (Linux only)."""
