"""Servers of the Model Context Protocol: how settings define them, and what their tools are locked to."""
