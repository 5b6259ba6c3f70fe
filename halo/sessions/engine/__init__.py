"""Runs the sessions of one process: turns from their inboxes, children, reports."""
