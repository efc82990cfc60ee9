"""Checks of an installation: each finds one thing that can be wrong, and says what to do about it."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement

from bulk_pipelines import resources, settings
from bulk_pipelines.database import address, folders, logs, migrations, pool, rights, samples, schemas
from bulk_pipelines.distribution.files import data
from bulk_pipelines.drops import probing, sources
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.errors import BulkError
from bulk_pipelines.orchestration.schema import SCHEMA
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.up import home
from bulk_pipelines.up.programs import MODULE

DISTRIBUTION = "bulk-pipelines"
SMALLEST_DISK = 1_000_000_000
NO_TABLES = "no tables yet; the first command that needs them makes them"

TABLES = (
    *(f"{each.table}_aside" for each in resources.RESOURCES),
    *("job", "job_item", "job_run", "claim", "cursor_key", "rate_limit", "batch_step"),
    *("import_count", "import_file", "rejected_row", "export_progress", "export_artifact", "export_artifact_walk"),
    *("drop_source", "file_drop", "unmatched_drop"),
    *("processing_source", "provider_answer", "provider_request", "review_decision", "reference_file", "reference_row"),
    *("api_key", "console_session", "audit", "sent_bytes", "upload"),
    *("measure", "event", "subscription", "source_notice"),
)
"""The tables of this program. Those of people, the samples among them, are looked at when they are worked with."""

SEQUENCES = ("job_number", "claim_claim_id_seq")
"""The sequences that it draws from by name."""


@dataclass(frozen=True)
class Finding:
    """What one check found; `remedy` says what to do."""

    subject: str
    ok: bool
    message: str
    remedy: str = ""


def examine(chosen: Settings) -> list[Finding]:
    """Make every check, in the order in which a person would put things right. Checks that need the database are made
    only when it answers."""
    kept = storage(chosen)
    findings = [python(), packages(), variables(), kept, *drops(chosen), definitions()]
    if not kept.ok and not chosen.database_url:
        return findings  # the embedded server keeps its data in that folder
    findings.append(server(chosen))
    if findings[-1].ok:
        findings.append(room(chosen))
        findings.append(schema(chosen))
        if findings[-1].message != NO_TABLES:
            findings.append(distribution(chosen))
        findings.append(instance(chosen))
    return findings


def python() -> Finding:
    return Finding("python", True, f"{'.'.join(str(part) for part in sys.version_info[:3])}, {sys.executable}")


def packages() -> Finding:
    """Check that the installed packages are those that the project asks for."""
    wrong = [problem for text in metadata.requires(DISTRIBUTION) or [] if (problem := unanswered(text))]
    if wrong:
        remedy = "pip install bulk-pipelines again; in a checkout: make setup"
        return Finding("packages", False, "; ".join(wrong), remedy)
    shown = ", ".join(f"{name} {metadata.version(name)}" for name in ("dagster", "psycopg", "sqlalchemy", "pyarrow"))
    return Finding("packages", True, shown)


def unanswered(text: str) -> str:
    """Return what is wrong with the package that this requirement asks for; empty when nothing is."""
    requirement = Requirement(text)
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        return ""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{requirement.name} {version} is installed and {requirement.specifier} is needed"


def variables() -> Finding:
    unknown = settings.unknown()
    if unknown:
        return Finding(
            "settings", False, f"no such setting: {', '.join(unknown)}", "look for the right name in docs/settings.md"
        )
    return Finding("settings", True, "every BULK_ variable is known")


def storage(chosen: Settings) -> Finding:
    """Check that the folder of the installation can be written, and has room."""
    folder = chosen.home
    remedy = f"make {folder} writable for this user, or name another folder as BULK_HOME"
    try:
        folders.private(folder)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"written")
    except OSError as error:
        return Finding("storage", False, f"{folder} cannot be written: {error.strerror}", remedy)
    free = shutil.disk_usage(folder).free
    if free < SMALLEST_DISK:
        return Finding("storage", False, f"{free // 1_000_000} MB are left on the disk of {folder}", "make room")
    return Finding("storage", True, f"{folder}, {free / 1e9:.0f} GB free")


def drops(chosen: Settings) -> list[Finding]:
    """Check that the sources of dropped files are configured right, and can be looked at."""
    file = chosen.drops_file
    if not sources.are_named(file):
        return [Finding("drops", True, f"{file} does not exist: the inbox is the only source")]
    try:
        found = sources.load(file, [each.name for each in resources.known()], chosen.home / "inbox")
    except BulkError as error:
        return [Finding("drops", False, str(error), f"mend {file}, see docs/drops.md; until then nothing is taken")]
    if missing := unknown_recipes(found, chosen):
        remedy = f"mend {file}, or declare the recipe; until then the source stands still"
        return [Finding("drops", False, missing, remedy)]
    wrong = probing.problems(found, access_of(chosen))
    remedy = "compare its address and the credentials with the server, and see that it can be reached from here"
    if wrong:
        return [Finding("drops", False, f"{name}: {why}", remedy) for name, why in wrong.items()]
    return [Finding("drops", True, f"{', '.join(each.name for each in found) or 'none'}, as {file} names them")]


def unknown_recipes(found: Sequence[DropSource], chosen: Settings) -> str:
    """Return which rules name recipes that are not declared, or why the declarations cannot be read."""
    named = {rule.recipe: source.name for source in found for rule in source.rules if rule.recipe}
    if not named:
        return ""
    try:
        known = library.load(chosen).recipes
    except BulkError as error:
        return str(error)
    unknown = {each: source for each, source in named.items() if each not in known}
    return "; ".join(f"source {source!r}: there is no recipe {each!r}" for each, source in unknown.items())


def server(chosen: Settings) -> Finding:
    """Check that the database answers, and is new enough."""
    try:
        with pool.single(address.url(chosen), timeout=chosen.connect_timeout) as connection:
            row = connection.execute("SHOW server_version").fetchone()
    except BulkError as error:
        return Finding("database", False, str(error), remedy_for(str(error), chosen))
    where = (
        "the address in BULK_DATABASE_URL" if chosen.database_url else f"embedded, in {address.embedded_folder(chosen)}"
    )
    return Finding("database", True, f"PostgreSQL {row[0] if row else '?'}, {where}")


REMEDIES = {
    r"password authentication failed|no password supplied|role .* does not exist": "correct the user and the password",
    r"database .* does not exist": "make that database, or correct its name",
    r"or newer is needed": "name a newer server",
    r"not a database address|must be PostgreSQL": "write it as postgresql://user:password@host:5432/name",
    r"too many (clients|connections)|connection slots": "raise max_connections, or lower BULK_POOL_SIZE",
    r"encoding is": "name a database that is UTF8",
    r"is a standby": "name the primary",
    r"set to be only read": "let it be written",
    r"shares servers": "change the pooler's pool_mode, or go around it",
    r"raise its pool size": "raise default_pool_size of the pooler",
    r"name resolution|not known|could not translate": "correct the host's name",
}


def remedy_for(message: str, chosen: Settings) -> str:
    """Return what to do about an error of the database."""
    if not chosen.database_url:
        return f"read {address.embedded_folder(chosen) / 'postgres' / 'server.log'}; or set BULK_DATABASE_URL"
    for pattern, remedy in REMEDIES.items():
        if re.search(pattern, message):
            return f"{remedy} (BULK_DATABASE_URL)"
    return "see that the server runs and can be reached from here, and that BULK_DATABASE_URL is right"


def room(chosen: Settings) -> Finding:
    """Say what stands in the schema of this program, and where names collide, before anything is written."""
    subject = "schema"
    try:
        found = migrations.look_around(address.url(chosen))
    except BulkError as error:
        return Finding(subject, False, str(error), "mend that before `bulk migrate`, see docs/privileges.md")
    said = [f"{found.own}, " + ("which has our tables" if found.is_ours else "which `bulk migrate` makes ready")]
    if found.former:
        said.append(f"the tables of an older version in {found.former} will be moved there by `bulk migrate`")
    if found.others:
        said.append(f"it also has {', '.join(found.others)}, not ours, which nobody touches")
    if found.alike:
        said.append(f"named like tables of ours, and told apart: {', '.join(found.alike)}")
    return Finding(subject, True, "; ".join(said))


def schema(chosen: Settings) -> Finding:
    """Check that the tables are those of this program, and that its role may work with them."""
    try:
        state = migrations.state(address.url(chosen))
        lacking = missing_rights(chosen) if not state.pending else []
    except BulkError as error:
        return Finding("migrations", False, str(error), "grant what is missing to the role in BULK_DATABASE_URL")
    if lacking:
        remedy = "let their owner GRANT it to the role in BULK_DATABASE_URL, see docs/operations.md"
        return Finding("migrations", False, f"the role may not {', '.join(lacking)}", remedy)
    if state.pending and not chosen.database_url and not state.applied:
        return Finding("migrations", True, NO_TABLES)
    if state.pending:
        return Finding("migrations", False, f"not applied: {', '.join(state.pending)}", "run `bulk migrate`")
    if state.unknown:
        return Finding(
            "migrations",
            False,
            f"the database is ahead of this program: {', '.join(state.unknown)}",
            "update this program to the version that made the database",
        )
    return Finding("migrations", True, f"{len(state.applied)} applied, none missing")


def missing_rights(chosen: Settings) -> list[str]:
    """Return what the role of this installation may not do, and would have to do sooner or later."""
    with pool.single(address.url(chosen), timeout=chosen.connect_timeout) as connection:
        return rights.missing(connection, TABLES, SEQUENCES)


def distribution(chosen: Settings) -> Finding:
    """Check that PostgreSQL takes the query for the data of distributed files, as the tables are now."""
    subject, named = "distribution query", chosen.distribution_query
    if not named and not has_index_data(chosen):
        said = "none: BULK_DISTRIBUTION_QUERY names one, `bulk distribute sample` makes a table to try it with"
        return Finding(subject, True, said)
    try:
        engine = pool.connect(address.url(chosen), application="bulk doctor", size=1)
        try:
            columns = data.columns(engine, data.query_of(named))
        finally:
            engine.dispose()
    except BulkError as error:
        remedy = f"mend {named}, see docs/distribution.md" if named else "let this role read index_data"
        return Finding(subject, False, str(error), f"{remedy}; until then every file fails")
    return Finding(subject, True, f"{named or 'the rows of index_data'}: {', '.join(columns)}")


def has_index_data(chosen: Settings) -> bool:
    with pool.single(address.url(chosen), timeout=chosen.connect_timeout) as connection:
        return samples.are_there(connection, ["index_data"])


def definitions() -> Finding:
    """Check that Dagster's definitions can be loaded. A process of its own does this, so that this process stays quick
    and clean."""
    script = f"from {MODULE} import defs; defs.validate_loadable(defs)"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return Finding(
            "definitions", False, why_failed(done), "mend the code; `dagster definitions validate` shows more"
        )
    return Finding("definitions", True, "they load")


def instance(chosen: Settings) -> Finding:
    """Check that Dagster's instance can be opened with its storage."""
    place = home.place(chosen)
    try:
        schemas.check(address.url(chosen), SCHEMA, chosen.connect_timeout)
    except BulkError as error:
        return Finding("dagster instance", False, str(error), "then run `bulk doctor` again")
    if not place.configuration.exists() or not home.has_storage(chosen, address.url(chosen)):
        return Finding("dagster instance", True, "not made yet; `bulk up` makes it")
    done = home.dagster(chosen, address.url(chosen), "instance", "info")
    if done.returncode != 0:
        remedy = f"compare {place.folder / 'dagster.yaml'} with dagster.yaml; `bulk up` writes it anew"
        return Finding("dagster instance", False, why_failed(done), remedy)
    revisions = re.findall(r"current: (\w+)\s+latest: (\w+)", done.stdout)
    if not revisions or any(current != latest for current, latest in revisions):
        return Finding("dagster instance", False, "its storage is of another version", "run `bulk migrate`")
    return Finding("dagster instance", True, f"{place.folder}, storage up to date")


def why_failed(done: subprocess.CompletedProcess[str]) -> str:
    """Return why a program failed, in one line."""
    return logs.error_in(done.stderr or done.stdout) or f"it ended with code {done.returncode}"
