"""Covering arrays: cases from a space of parameters, and an independent count of what they cover.

Start at `space` (what cases are drawn from), then `generate` (strategies) and `verify` (coverage). `network`
is the solver that both rest on, `contradiction` says which constraints cannot all hold, `coverwise_model`
speaks with the generator.
"""
