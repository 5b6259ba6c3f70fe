"""The index of a workspace's sessions: derived, deleted and rebuilt at will, never the truth."""
