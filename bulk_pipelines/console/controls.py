"""What can be done to a job, and in which states. Each control says what it will do before it is done."""

from collections.abc import Callable
from dataclasses import dataclass

from bulk_pipelines.api.door import Door
from bulk_pipelines.console.live import Seen
from bulk_pipelines.console.shown import number, several
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dlq, jobs, redrive
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JOB_MOVES, JobEvent, JobState, sources
from bulk_pipelines.errors import NotFound
from bulk_pipelines.imports.afterwards import replays, undo
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.storage.access import access_of

KICK_OFF = "kickoff"
PAUSED = (
    "The workers stop within seconds, at the end of what they hold. What is done stays, and the job goes on from there "
    "when it is resumed."
)
KICKED_OFF = "This server works the job itself for five seconds, beside whoever works it elsewhere. It may be repeated."
REPLAYED = (
    "All rejected records run once more, unchanged, as an import of their own: for when a rule or other data was "
    "mended. An import has one replay."
)
Done = tuple[str, str | None]
"""What was done, in words, and the key of the job that this made, if it made one."""


@dataclass(frozen=True)
class Control:
    """One thing that can be done."""

    name: str
    word: str
    says: Callable[[Door, Job], str]
    act: Callable[[Door, Job, Actor], Done]
    offered: Callable[[Seen, str], bool]
    danger: bool = False


def pause(door: Door, job: Job, by: Actor) -> Done:
    with transaction(door.pool) as connection:
        jobs.pause(connection, job.job_key, by)
    return "The job is paused.", None


def resume(door: Door, job: Job, by: Actor) -> Done:
    with transaction(door.pool) as connection:
        jobs.resume(connection, job.job_key, by)
    return "The job goes on: a run is launched for it.", None


def cancel(door: Door, job: Job, by: Actor) -> Done:
    jobs.cancel(door.pool, job.job_key, by)
    return "The job is cancelled.", None


def try_again(door: Door, job: Job, by: Actor) -> Done:
    came = dlq.try_again(door.pool, dlq.Wanted(job_key=job.job_key), by)
    if came.goes_on:
        return "The job goes on with the items that it had never begun.", None
    return f"{several(came.items, 'dead letter')} tried again.", None


def replay(door: Door, job: Job, by: Actor) -> Done:
    chosen = door.settings
    submitted = replays.replay(door.pool, job.job_key, landing.place(chosen), access_of(chosen), by)
    return "The rejected records run again, as this import.", submitted.job.job_key


def take_back(door: Door, job: Job, by: Actor) -> Done:
    removed = undo.undo(door.pool, job, by)
    return f"{several(removed, 'row')} taken back.", None


def nothing(_: Door, job: Job, __: Actor) -> Done:
    """Say that the job was worked. The page does that itself, within the limits of the API's process."""
    return f"{job.job_key} was worked here.", None


def is_workable(seen: Seen, what: str) -> bool:
    return what == "process" and seen.job.status in (JobState.SUBMITTED, JobState.RUNNING)


def of_event(event: JobEvent) -> Callable[[Seen, str], bool]:
    return lambda seen, _: seen.job.status in sources(JOB_MOVES, event)


def is_redrivable(seen: Seen, _: str) -> bool:
    job = seen.job
    over = job.status in sources(JOB_MOVES, JobEvent.REDRIVE)
    return job.status is not JobState.CANCELLED and (job.dlq_items > 0 or (over and redrive.may_go_on(job)))


def is_replayable(seen: Seen, what: str) -> bool:
    return what == "import" and seen.job.finished and seen.figures is not None and seen.figures.counts.rejected > 0


def is_undoable(seen: Seen, what: str) -> bool:
    loaded = seen.figures is not None and seen.figures.counts.loaded > 0
    return what == "import" and seen.job.finished and loaded and seen.job.params.get("mode") == "insert"


def told_of_cancel(_: Door, job: Job) -> str:
    ends = "What is in work ends within seconds, and what waits is given up. This cannot be taken back."
    if not job.kind.startswith("import_"):
        return ends
    if job.params.get("mode") == "insert":
        return f"{ends} Rows that are loaded stay; undo removes them."
    return f"{ends} An upsert that has not begun to write leaves the table as it was."


def told_of_redrive(_: Door, job: Job) -> str:
    if job.dlq_items:
        return (
            f"With fresh budgets, {several(job.dlq_items, 'dead letter')} will be tried again. If the job is over, it "
            "goes on in a new run."
        )
    return "The job goes on with the items that it had never begun, in a new run."


def told_of_undo(door: Door, job: Job) -> str:
    with transaction(door.pool) as connection:
        found = undo.count(connection, undo.undoable(job), job.job_id)
    return (
        f"From the table, {several(found.free, 'row')} that this import added will be removed. {number(found.changed)} "
        f"that were changed since, and {number(found.referred_to)} that other rows refer to, stay."
    )


CONTROLS = {
    each.name: each
    for each in (
        Control(
            "pause",
            "Pause",
            lambda _, __: PAUSED,
            pause,
            of_event(JobEvent.PAUSE),
        ),
        Control(
            "resume",
            "Resume",
            lambda _, __: "The job goes on where it stopped, in a new run.",
            resume,
            of_event(JobEvent.RESUME),
        ),
        Control(
            KICK_OFF,
            "Process now",
            lambda _, __: KICKED_OFF,
            nothing,
            is_workable,
        ),
        Control("redrive", "Redrive", told_of_redrive, try_again, is_redrivable),
        Control(
            "replay",
            "Replay rejects",
            lambda _, __: REPLAYED,
            replay,
            is_replayable,
        ),
        Control("undo", "Undo", told_of_undo, take_back, is_undoable, danger=True),
        Control("cancel", "Cancel", told_of_cancel, cancel, of_event(JobEvent.CANCEL), danger=True),
    )
}


def offered(seen: Seen, what: str) -> list[Control]:
    return [each for each in CONTROLS.values() if each.offered(seen, what)]


def named(name: str) -> Control:
    try:
        return CONTROLS[name]
    except KeyError:
        raise NotFound(f"there is no control of a job that is called {name[:50]!r}") from None
