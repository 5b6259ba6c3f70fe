"""Clients of MCP servers: tools that somebody else's program offers."""
