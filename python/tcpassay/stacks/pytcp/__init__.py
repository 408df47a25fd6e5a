"""The recipe of PyTCP's adapter. Nothing here is imported: `tcpassay stack build pytcp` makes a program of it."""
