"""What is done to sessions as folders: listed, shown, followed, searched, put away, deleted, repaired."""
