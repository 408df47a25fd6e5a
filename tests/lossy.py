"""A case with random losses that every substrate supports."""

LOSSY: dict[str, bool | int | float | str] = {
    "link.rate": "50Mbit",
    "link.delay": "5ms",
    "link.loss": "0.5%",
    "nic.tso": "on",
    "stack.cc": "cubic",
    "app.flows": 2,
    "app.duration": "300ms",
}
