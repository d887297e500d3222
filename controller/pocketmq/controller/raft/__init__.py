"""Agreement among controllers on one order of commands (Raft), as a pure state machine."""
