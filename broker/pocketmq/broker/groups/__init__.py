"""Consumer and producer groups: their settings, who is connected, who is told of a change."""
