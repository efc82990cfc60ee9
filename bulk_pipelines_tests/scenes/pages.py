"""Which pages the console has, in a furnished installation: those that are checked and photographed."""

from collections.abc import Mapping

from bulk_pipelines_tests.scenes.furnished import Furnished

PAGES: Mapping[str, str] = {
    "jobs": "/console/jobs",
    "job": "/console/jobs/{rejected}",
    "job-running": "/console/jobs/{running}",
    "rejects": "/console/jobs/{rejected}/rejects",
    "control": "/console/jobs/{loaded}/control/undo",
    "job-audit": "/console/jobs/{rejected}/audit",
    "export": "/console/jobs/{exported}",
    "distribution": "/console/jobs/{undistributed}",
    "processing": "/console/jobs/{processed}",
    "grid": "/console/jobs/{processed}/grid",
    "items": "/console/jobs/{undistributed}/items",
    "item": "/console/jobs/{processed}/items/{item}",
    "reprocess": "/console/jobs/{processed}/reprocess?state=NOT_FOUND",
    "review": "/console/jobs/{processed}/review",
    "thresholds": "/console/jobs/{processed}/review/thresholds",
    "pending": "/console/pending",
    "dead-letters": "/console/dlq",
    "drops": "/console/drops",
    "workers": "/console/workers",
    "resources": "/console/resources",
    "keys": "/console/keys",
    "audit": "/console/audit",
    "new-import": "/console/new/import",
    "new-export": "/console/new/export?resource=users&fields=email&fields=name&where=role%3Dreader",
    "new-export-adopted": "/console/new/export?resource=orders&where=total%3E%3D100",
    "new-distribution": "/console/new/distribution",
    "new-process": "/console/new/process",
    "not-there": "/console/nowhere",
    "login": "/console/login",
}


def place_of(name: str, made: Furnished) -> str:
    keys = {each: job.job_key for each, job in made.jobs.items()}
    return PAGES[name].format(**keys, item=made.item_of("processed"))
