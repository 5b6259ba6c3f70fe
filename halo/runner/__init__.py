"""The turn: handed an artifact and a history. Never finds, refreshes or compiles prompts."""
