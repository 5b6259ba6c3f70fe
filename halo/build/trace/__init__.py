"""From a line of a prompt back to its layer, its line and its author."""
