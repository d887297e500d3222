"""Consumer and producer groups: settings, connected members, notifications of changes."""
