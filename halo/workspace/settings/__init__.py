"""settings.yaml and config.yaml: values, declarations, and the typed `general:` block."""
