"""Other TCPs than the model on the substrate `model` (docs/stacks.md).

| module | content |
| --- | --- |
| `build` | builds the processes of known TCPs |
| `catalogue` | the values of `stack.implementation`, with versions |
| `check` | what a process does wrong that implements the protocol |
| `proxy` | a process between a run and a stack: it delays answers, or asks more often |
"""
