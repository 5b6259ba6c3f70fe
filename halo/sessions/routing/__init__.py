"""Decides which session a message reaches, when that session ends, and where replies may go. Pure."""
