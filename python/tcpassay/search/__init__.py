"""Plans whose cases depend on results: `strategy = "search"`.

    strategy = strategy.search_of(plan)   # None for a plan whose cases are known before it runs
    strategy.tell(generation)             # the cases of a generation with their runs
    cases = strategy.ask()                # the next generation; empty at the end

`genes.py` defines how values change, `space.py` converts values to cases; `evolution.py` searches the worst value of a
metric or a finding (`objective.py`) with the behaviours that runs reached (`feedback.py`); `spending.py` is the budget.
A generation is a function of the plan and of the results of the generations before it: the journal stores the cases of
each generation, so that an interrupted search continues at the same place.
"""
