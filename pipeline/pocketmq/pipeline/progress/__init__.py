"""Where reading stands and what it would lose: checkpoints, marks, losses, plans of batches."""
