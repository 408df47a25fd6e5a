"""Packet captures: their rounds, a summary of each flow, and the findings of the oracles that packets alone can feed.

`model.py` holds the result of an analysis, `analyse.py` reads a capture, `show.py` prints, `judge.py` calls
the oracles.
"""
