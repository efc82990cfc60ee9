"""The life of a job: it is submitted, offered for a launch, paused, redriven and ended.

`submission` makes jobs of requests, `jobs` moves them from state to state, and `end` ends them; `cut_short` goes
through those that ended before their time. `dispatch` says which jobs want a run, and `runs` what a run does when it
takes a job up. `redrive`, `dlq` and `skipping` decide again about items, `audit` notes who did what, and `quotas` bound
what an owner may have. `listing` and `overview` show jobs to people, and `telling` tells logs and traces of them.
"""
