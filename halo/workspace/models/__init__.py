"""Models: how they are named, what is known of them, which one is chosen."""
