"""What plans and result folders would execute, and what of it the user has accepted (docs/strangers.md)."""
