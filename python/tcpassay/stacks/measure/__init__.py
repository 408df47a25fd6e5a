"""Facts of a TCP, measured by probes: `tcpassay stack measure`.

| module | content |
| --- | --- |
| `segment` | TCP segments in IPv4 packets |
| `peer` | a peer that sends what a probe says, in virtual time |
| `facts` | what is measured: a row for each fact |
| `opening`, `sending`, `receiving`, `closing` | the probes |
| `table` | the tables of facts, as text and Markdown |
"""
