"""Plans of searches for tests."""

# A path on which a few lost packets matter; a hundred runs of half a second take half a second of CPU.
LOSSES = """\
name = "losses"
doc = "Which packets hurt most when they are lost."
oracles = false

[fixed]
"app.duration" = "500ms"
"link.rate" = "20Mbit"
"link.delay" = "20ms"

[axes]
"link.loss_model" = { sequence = "losses", most = 6, among = 500 }
"queue.limit" = { from = "10KB", to = "200KB", scale = "log" }
"stack.cc" = ["reno", "cubic"]

[strategy]
kind = "search"
metric = "goodput"
population = 8
budget = { runs = 60 }
"""
