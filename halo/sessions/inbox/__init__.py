"""The queue of a session: a folder that any process may add to, and one takes from."""
