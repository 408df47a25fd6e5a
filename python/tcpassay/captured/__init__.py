"""Packet captures: their rounds, a summary of each flow, and the findings of the oracles that need only packets.

`model.py` contains the types of results, `analyse.py` reads a capture, `show.py` prints the results, `judge.py` calls
the oracles.
"""
