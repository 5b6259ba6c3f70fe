"""What a change does to every assembled prompt."""
