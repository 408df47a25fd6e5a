"""Code coverage of kernels: which functions, lines and branches of the kernel runs reached.

A kernel that was built with `--coverage` counts how often its code is executed (gcov). A guest writes the counters at
its end, and gcov of the compiler that built the kernel turns them into lines, branches and functions.

| module | content |
| --- | --- |
| `catalogue` | the functions, lines and branches that a kernel has |
| `changed` | the places in which two kernels differ, with the lines whose counters show that they ran |
| `counters` | from the counters of a guest to what it reached |
| `reached` | what the runs of a result folder reached, together and by case |
| `lcov` | the format of lcov |
| `reasons` | why lines are not reached |
| `fitted` | the cases of a plan that a kernel can run |
| `counted` | runs a plan on a kernel with counters |
| `show` | tables for the terminal |
"""

from tcpassay.gcov.catalogue import Bits, Catalogue
from tcpassay.gcov.counters import catalogue_of

__all__ = ["Bits", "Catalogue", "catalogue_of"]
