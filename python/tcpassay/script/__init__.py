"""packetdrill scripts: their files, running them on the model and on Linux, scripts as cases of plans.

`files` and `results` know nothing of running. `model` runs a script in this process, `linux` runs scripts in a guest or
on this host, `case` runs a script as a case of a plan. `batch`, above the worker processes of `run`, runs all scripts
of a command.
"""
