"""packetdrill scripts: their files, running them on the model and on Linux, and scripts as cases of plans.

`files` and `results` do not depend on running. `model` runs a script in this process, `linux` runs scripts in a guest
or on this host, `case` runs a script as a case of a plan. `batch` uses the worker processes of `run` to run all scripts
of a command.
"""
