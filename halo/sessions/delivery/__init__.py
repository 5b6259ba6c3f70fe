"""How replies leave a session: cut into messages, merged, paced, and sent to channels."""
