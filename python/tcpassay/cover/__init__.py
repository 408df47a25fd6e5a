"""Covering arrays: cases from a space of parameters, and an independent count of their coverage.

Main modules: `space` (the space of cases), `generate` (strategies) and `verify` (coverage). `network` is the solver of
both. `contradiction` finds constraints that contradict each other. `coverwise_model` is the interface to the generator.
"""
