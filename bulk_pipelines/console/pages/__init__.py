"""The pages of the console, one module for each."""

from bulk_pipelines.console.pages import (
    control,
    dead_letters,
    drops,
    items,
    job,
    jobs,
    login,
    new_distribution,
    new_export,
    new_import,
    new_process,
    pending,
    people,
    rejects,
    reprocessing,
    review,
)

ROUTERS = (
    login.router,
    jobs.router,
    job.router,
    control.router,
    rejects.router,
    items.router,
    reprocessing.router,
    review.router,
    dead_letters.router,
    drops.router,
    people.router,
    new_import.router,
    new_export.router,
    new_distribution.router,
    new_process.router,
    pending.router,
)
