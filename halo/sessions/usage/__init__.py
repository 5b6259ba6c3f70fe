"""What model calls have used: of sessions, of workspaces, of those that are gone."""
