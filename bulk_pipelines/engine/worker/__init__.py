"""A worker: it leases items a slice at a time, works them, decides about retries, and settles the outcomes.

`drain` is the loop around its slices, `runner` makes one slice, `work` works its items, and `settler` writes in a
thread of its own, within `settler_limits`. `slices` and `pressure` say how much the worker takes, `retry` what becomes
of an outcome, `standing` whether the worker may go on, and `stopping` whether somebody wants it to stop. `tools` is
what a handler is given, and `counting` writes what handlers count; `measuring` measures the rest.
"""
