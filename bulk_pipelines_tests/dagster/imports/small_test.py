"""The smallest import: nearly all that it takes is what every import takes."""

from pathlib import Path

from bulk_pipelines.database import queries
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.scenes.import_assets import Installation, file_of
from bulk_pipelines_tests.scenes.listening import listening_everywhere

LOOKS = [queries.text("jobs", name) for name in ("find_job", "lock_job")]
"""The statements that look a job up, as it is or to move it."""


def test_the_smallest_import_looks_its_job_up_at_most_five_times(installation: Installation, tmp_path: Path) -> None:
    """The plan, the lane and the last step each take the job up, because they may be processes of their own."""
    job = installation.submit("users", file_of(tmp_path, "email,name,role\na@example.org,A,reader\n"))
    heard: list[str] = []
    with listening_everywhere(heard.append):
        installation.run(job)
    assert installation.find(job).status is JobState.COMPLETED
    looks = [each for each in heard if each in LOOKS]
    assert 0 < len(looks) <= 5
