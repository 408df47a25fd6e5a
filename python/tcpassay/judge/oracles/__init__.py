"""The oracles, one module each.

A module's docstring says what it asserts, why that must hold, what evidence it cites and how it can be wrong, each in a
paragraph that begins with `Asserts:`, `Why:`, `Evidence:` and `Wrong when:`. `NEEDS` lists the kinds of events, beside
segments, which it requires. Its function `look` takes a
`Trace` and yields what it found, at most one `Found` for a flow and a way in which it happened.
"""
