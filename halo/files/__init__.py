"""Floor 0: bytes on disk, and nothing about prompts.

Canonical text and JSON (`canonical`), digests (`digests`) and stat stamps (`stamps`); read-only trees over
disk, memory, overlays and git revisions (`tree`, `git_tree`, confined by `roots`); and the writers that
survive kills and power loss: atomic replace (`atomic`), checked append-only logs (`log`), kernel locks
(`locks`). Nothing is imported here, because a no-op build pays for every import.
"""
