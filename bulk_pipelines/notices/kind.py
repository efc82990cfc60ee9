"""What the engine is told of notices: they are tried for hours, because receivers are restarted and repaired."""

from dataclasses import replace

from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.limits import Limits, limits_of
from bulk_pipelines.engine.worker.retry import Backoff
from bulk_pipelines.errors import ErrorClass
from bulk_pipelines.notices import completion, work
from bulk_pipelines.notices.request import KIND
from bulk_pipelines.settings.engine import EngineSettings

ATTEMPTS = 12
DELAYS = Backoff(base=5.0, cap=3_600.0)
AT_ONCE = 8


def kind_of(limits: Limits) -> Kind:
    passing = dict.fromkeys((ErrorClass.TRANSIENT, ErrorClass.THROTTLED, ErrorClass.UNKNOWN), DELAYS)
    return Kind(
        KIND,
        work.handle,
        finish=completion.finish,
        concurrency=AT_ONCE,
        retry=replace(limits.retry, max_attempts=ATTEMPTS, backoffs={**limits.retry.backoffs, **passing}),
        slices=limits.slices,
        settling=limits.settling,
    )


KINDS = Kinds([kind_of(limits_of(EngineSettings()))])
"""The kind with the default limits. To submit a job, only its name is needed."""
