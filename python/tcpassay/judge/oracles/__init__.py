"""The oracles, one module each.

A module's docstring states the assertion, its reason, the evidence of a finding, and the cases in which a finding is
wrong, each in a paragraph that begins with `Asserts:`, `Why:`, `Evidence:` or `Wrong when:`. `NEEDS` lists the kinds of
events that it requires in addition to segments. The function `look` reads a `Trace` and yields at most one `Found` for
each flow and title.
"""
