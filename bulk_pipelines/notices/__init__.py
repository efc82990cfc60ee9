"""Notices: signed requests tell subscribers when a job has ended or a source is down.

`subscriptions` are kept in the database. `outbox` turns `events` into the items of a job, which the engine works as
any other item: `work` sends one notice by `sending`, signed by `signing`.
"""
