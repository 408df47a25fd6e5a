"""Testbeds: several hosts on which a controller runs cases through agents (the substrate `remote`).

`file` reads testbed files, `connection` speaks with the agent of a host over ssh, `clock` estimates the difference of
two clocks, `session` runs cases on all hosts, and `check` reports what a testbed can do. docs/testbed.md is the
documentation for users.
"""
