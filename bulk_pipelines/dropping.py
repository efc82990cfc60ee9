"""Where dropped files go: to imports, or to processing. Whoever looks at sources takes this with it."""

from bulk_pipelines.drops.look import Doors
from bulk_pipelines.imports import submission
from bulk_pipelines.processing.submission import submit_drop


def doors() -> Doors:
    return Doors(submission.submit_drop, submit_drop, submission.references())
