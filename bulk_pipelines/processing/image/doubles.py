"""Near-doubles: pictures whose hashes differ in a few bits only, within a job and against a table of known ones.

They are looked for once, among all pictures of a job, before the job ends. So the answer does not depend on the order
in which pictures were read: a picture is a double of the first one in the job's order that it is like, or of a known
one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces, queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.image.options import Options, Reference, options_of
from bulk_pipelines.processing.recipes.declaration import Recipe, Source
from bulk_pipelines.processing.request import ProcessingRequest, quoted

Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

AT_A_TIME = 5_000
PAIRS = 2_000_000
NONE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Pictures:
    """Pictures in their order."""

    ids: list[str]
    hashes: Hashes


def reconcile(pool: Engine, job: Job) -> bool:
    """Note for each picture of the job of which one it is a near-double. This may be cut short and done again."""
    recipe = ProcessingRequest.from_params(job.params).recipe
    options = options_of(recipe)
    if options.near < 0:
        return True
    with transaction(pool) as connection:
        rows = connection.execute(queries.text("pictures", "hashes_of_job"), {"job_id": job.job_id}).fetchall()
    ours = Pictures([row[1] for row in rows], parsed([row[2] for row in rows]))
    earlier = first_like(ours.hashes, options.near)
    known = like_known(pool, options, ours.hashes)
    found = []
    for number, (item_id, _, _) in enumerate(rows):
        double = known[number] or (ours.ids[earlier[number]] if earlier[number] != NONE else None)
        found.append((item_id, double))
    with transaction(pool) as connection:
        for start in range(0, len(found), AT_A_TIME):
            note(connection, job, recipe, found[start : start + AT_A_TIME])
    return True


def note(connection: Connection, job: Job, recipe: Recipe, found: list[tuple[int, str | None]]) -> None:
    shown = [each.header for each in recipe.columns if (each.source, each.key) == (Source.ANSWER, "double_of")]
    values = {
        "job_id": job.job_id,
        "item_ids": [item_id for item_id, _ in found],
        "doubles": [double for _, double in found],
        "headers": shown,
    }
    connection.execute(queries.text("pictures", "note_doubles"), values)


def like_known(pool: Engine, options: Options, hashes: Hashes) -> list[str | None]:
    """Return for each hash the known picture that it is most like, if there is one."""
    best: list[str | None] = [None] * len(hashes)
    distance = np.full(len(hashes), options.near + 1, np.int64)
    if options.reference is None or not len(hashes):
        return best
    for some in known_pictures(pool, options.reference):
        for mine, theirs in pairs(hashes, some.hashes, options.near):
            apart = np.bitwise_count(hashes[mine] ^ some.hashes[theirs]).astype(np.int64)
            for place, other, bits in zip(mine.tolist(), theirs.tolist(), apart.tolist(), strict=True):
                if bits < distance[place]:
                    distance[place], best[place] = bits, some.ids[other]
    return best


def known_pictures(pool: Engine, reference: Reference) -> Iterator[Pictures]:
    """Yield the pictures of the table, in an order that does not change, a part at a time."""
    id_, hash_ = sql.Identifier(reference.id), sql.Identifier(reference.hash)
    statement = sql.SQL("SELECT {}::text, {}::text FROM {} WHERE {} IS NOT NULL ORDER BY 1").format(
        id_,
        hash_,
        sql.SQL(quoted(reference.table)),
        hash_,
    )
    with transaction(pool) as connection:
        namespaces.turn_to_theirs(connection)
        with connection.cursor("known_pictures") as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(100 * AT_A_TIME // 5):
                yield Pictures([str(row[0]) for row in rows], parsed([str(row[1]) for row in rows]))


def parsed(hashes: list[str]) -> Hashes:
    try:
        return np.array([int(each, 16) for each in hashes], np.uint64)
    except (ValueError, OverflowError):
        raise InvalidInput("reference", "a hash is no 16 hexadecimal digits, as the grid shows them") from None


def first_like(hashes: Hashes, near: int) -> Places:
    """Return for each hash the place of the first one before it that it is like."""
    found = np.full(len(hashes), NONE, np.int64)
    if not len(hashes):
        return found
    # Equal hashes may be very many, so only the first of each is compared with others.
    unique, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    best = np.full(len(unique), NONE, np.int64)
    for mine, theirs in pairs(unique, unique, near):
        np.minimum.at(best, mine, np.where(mine == theirs, NONE, first[theirs]))
    place = np.arange(len(hashes))
    candidates = np.minimum(best[inverse], first[inverse])
    found[candidates < place] = candidates[candidates < place]
    return found


def pairs(mine: Hashes, theirs: Hashes, near: int) -> Iterator[tuple[Places, Places]]:
    """Yield the places of hashes that differ in at most `near` bits. Of `near` + 1 parts, two such hashes have one in
    common; so only hashes with a part in common are compared, some at a time. A pair may come more than once."""
    edges = np.linspace(0, 64, near + 2).astype(int)
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        mask = np.uint64((1 << (high - low)) - 1)
        wanted, keys = (mine >> np.uint64(low)) & mask, (theirs >> np.uint64(low)) & mask
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        start, stop = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
        yield from compared(mine, theirs, near, order, start, stop)


def compared(
    mine: Hashes, theirs: Hashes, near: int, order: Places, start: Places, stop: Places
) -> Iterator[tuple[Places, Places]]:
    ends = np.cumsum(stop - start)
    row = 0
    while row < len(mine):
        before = int(ends[row - 1]) if row else 0
        until = max(row + 1, int(np.searchsorted(ends, before + PAIRS, "right")))
        counts = (stop - start)[row:until]
        left = np.repeat(np.arange(row, until), counts)
        offset = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
        right = order[np.repeat(start[row:until], counts) + offset]
        alike = np.bitwise_count(mine[left] ^ theirs[right]) <= near
        yield left[alike], right[alike]
        row = until
