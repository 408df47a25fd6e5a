"""The adapter of lwIP."""
