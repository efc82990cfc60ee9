"""A worker: it leases items a slice at a time, works them, decides about retries, and settles the outcomes.

`drain` is the loop around its slices, `runner` makes one slice, and `settler` writes in a thread of its own. `slices`
and `pressure` say how much the worker takes, `retry` what becomes of an outcome, and `standing` whether the worker may
go on. `tools` is what a handler is given.
"""
