"""Commands that a person types where a message could stand: `/new`, `/stop`, `/status` and others."""
