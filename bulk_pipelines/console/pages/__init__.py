"""The pages of the console, one module for each."""

from bulk_pipelines.console.pages import (
    control,
    dead_letters,
    drops,
    job,
    jobs,
    login,
    new_distribution,
    new_export,
    new_import,
    people,
    rejects,
)

ROUTERS = (
    login.router,
    jobs.router,
    job.router,
    control.router,
    rejects.router,
    dead_letters.router,
    drops.router,
    people.router,
    new_import.router,
    new_export.router,
    new_distribution.router,
)
