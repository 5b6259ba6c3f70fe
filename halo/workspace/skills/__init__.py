"""Skills: lenient loading, the specification, what is shadowed."""
