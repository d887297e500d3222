"""Who answers which request, one file per family."""
