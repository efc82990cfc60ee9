"""Rejects that are run again, nothing being mended, are rejected again: the same records for the same reasons."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bulk_pipelines import resources
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.afterwards import replaying
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.load.rejects import Rejected
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.land.landed_file import LocalFile
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.request import RequestedFile
from bulk_pipelines.imports.validate.validation import Reject, validate
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.import_runs import SUBMITTED, Pace
from bulk_pipelines_tests.scenes.today import examples

USERS = resources.find("users")
LARGEST = 400
GOOD = {"email": "a@x.org", "name": "Ann", "role": "reader"}

csv_text = st.text('a",\n\r\ufeff[{ ', max_size=30)
csv_files = st.tuples(
    st.sampled_from(["email,name,role", "role,email,name", '"email","name",role\r']),
    st.lists(st.one_of(csv_text, st.just("a@x.org,Ann,king\n"), st.just('"' + "x" * LARGEST)), min_size=1, max_size=4),
).map(lambda file: f"{file[0]}\n{''.join(file[1])}")
scraps = st.sampled_from([*" \t\r\v\x1f\x85\u2028\ufeff1:", "null", "\\n", "x" * LARGEST])
objects = [json.dumps(GOOD), json.dumps(GOOD | {"role": "king"}), "{}", "null", '"text"', "5", ""]


@st.composite
def broken_object(draw: st.DrawFn, more: str = "") -> str:
    text = draw(st.sampled_from(objects))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.one_of(scraps, st.sampled_from(more or " "))) + text[place:]
    return text


ndjson_files = st.lists(broken_object('"\\{[}],'), min_size=1, max_size=4).map("\n".join)
arrays = st.lists(broken_object("\n"), min_size=1, max_size=4).map(lambda found: f"[{','.join(found)}]")


def read(path: Path, base: int, largest: int, certain: Format | None = None) -> tuple[Layout, list[Reject]]:
    context = ImportContext(1, USERS, Mode.INSERT, bytes(32), SUBMITTED, base, max_record_bytes=largest)
    found: list[Reject] = []
    with LocalFile(path) as source:
        plain = layout.inspect(source, USERS, certain=certain)
        shifted = replace(plain, first_line=plain.first_line + base)
        for piece in ranges.cut(source, shifted, 1 << 20):
            for block in blocks.read(source, shifted, piece, Pace(1_000), largest):
                found += validate(context, shifted, block).rejects
    return shifted, found


def read_all(texts: list[str], folder: Path) -> Iterator[tuple[ImportFile, list[Reject]]]:
    base = 0
    for number, text in enumerate(texts, 1):
        path = folder / f"{number}"
        path.write_bytes(text.encode())
        try:
            found, rejects = read(path, base, LARGEST)
        except InvalidInput:
            continue  # about the file as a whole
        yield ImportFile(number, RequestedFile(str(path)), str(path), layout=found, base_line=base), rejects
        base += len(text.encode())


def as_kept(reject: Reject) -> Rejected:
    return Rejected(reject.line, reject.raw, reject.raw_size, [reason.as_json() for reason in reject.reasons])


def outline(rejects: list[Reject]) -> list[tuple[bytes, list[dict[str, Any]]]]:
    return [
        (each.raw, [reason.as_json() for reason in each.reasons])
        for each in rejects
        if each.raw and each.raw_size is None
    ]


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.one_of(csv_files, ndjson_files, arrays), min_size=1, max_size=3))
@example(['[{"email": "a@x.org", "name": "An\nn", "role": "reader"}]'])
@example(['email,name,role\na@x.org,"Ann,reader\n', "email,name,role\nb@x.org,Bob,king\n"])
@example(["\n\ufeff{}\nnull\n{}", 'null\n{"email": 5}'])
@example(['{}\n\ufeff{"email": "a@x.org", "name": "Ann", "role": "reader"}'])
def test_what_was_rejected_is_rejected_again(tmp_path: Path, texts: list[str]) -> None:
    found = list(read_all(texts, tmp_path))
    kept = [as_kept(each) for _, rejects in found for each in rejects]
    storage = LocalStorage(tmp_path / "landed")
    again: list[Reject] = []
    for file in replaying.write(storage, "J20260110_000001", [file for file, _ in found], kept):
        # What separates two records counts: the last one of a file may have had nothing behind it.
        again += read(Path(file.source.removeprefix("file://")), 0, LARGEST + 2, file.format)[1]
    assert outline(again) == outline([each for _, rejects in found for each in rejects])
