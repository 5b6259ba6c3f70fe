"""Snapshot tests of prompts: a pytest plugin that comes with Halo (docs/how-to/test-prompts.md)."""
