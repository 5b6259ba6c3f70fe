"""Which artifacts exist and whether they are fresh. Knows no rule of composition and not doit."""
