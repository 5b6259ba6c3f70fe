"""What can be said against a workspace: numbered rules over its layers and its assembled prompts."""
