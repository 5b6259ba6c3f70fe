"""Long conversations: pinned artifacts, changes of artifacts, compaction, notes, what fills the window."""
