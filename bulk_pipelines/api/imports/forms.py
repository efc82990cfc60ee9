"""A file and its options in a multipart form. The form is parsed while it arrives; fields may stand before the file or
behind it."""

from collections.abc import Iterable, Iterator

from streaming_form_data import ParseFailedException, StreamingFormDataParser
from streaming_form_data.parser import UnexpectedPartException
from streaming_form_data.targets import BaseTarget

from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.errors import InvalidInput

FILE = "file"
LONGEST_FIELD = 10_000
LONGEST_BETWEEN = 4 << 20
"""How many bytes in a row may belong to no file. The parser keeps what it takes for a header, however long it is."""


class FileTarget(BaseTarget):  # type: ignore[misc]
    """Hands on what arrives of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[bytes] = []
        self.files = 0
        self.finished = 0

    def on_start(self) -> None:
        self.files += 1

    def on_data_received(self, chunk: bytes) -> None:
        self.waiting.append(bytes(chunk))

    def on_finish(self) -> None:
        self.finished += 1

    def taken(self) -> bytes:
        taken, self.waiting = b"".join(self.waiting), []
        return taken


class FieldTarget(BaseTarget):  # type: ignore[misc]
    """Keeps a short field."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.text: bytes | None = None

    def on_start(self) -> None:
        self.text = (self.text or b"") + b""

    def on_data_received(self, chunk: bytes) -> None:
        self.text = (self.text or b"") + bytes(chunk)
        if len(self.text) > LONGEST_FIELD:
            raise InvalidInput(self.name, f"is longer than {LONGEST_FIELD:,} bytes")


class Form:
    """A form that arrives."""

    def __init__(self, content_type: str, fields: Iterable[str]) -> None:
        self.file = FileTarget()
        self.targets = {name: FieldTarget(name) for name in fields}
        try:
            self.parser = StreamingFormDataParser({"Content-Type": content_type}, strict=True)
        except ParseFailedException as error:
            raise Refusal("unsupported-media-type", f"Content-Type: {error}") from None
        self.parser.register(FILE, self.file)
        for target in self.targets.values():
            self.parser.register(target.name, target)

    def pieces(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes of the file, and nothing for a piece that holds none of them. Behind them, the fields are
        known."""
        between = 0
        for piece in body:
            self.parse(piece)
            taken = self.file.taken()
            between = 0 if taken else between + len(piece)
            if between > LONGEST_BETWEEN:
                raise InvalidInput("body", f"is not a form: {between:,} bytes in a row belong to no file")
            yield taken
        if not self.file.files:
            raise InvalidInput(FILE, "the form has no part of this name: curl -F file=@users.csv sends one")
        if not self.file.finished:
            raise Refusal("cut-off", "the form ends in the middle of the file")

    def parse(self, piece: bytes) -> None:
        try:
            self.parser.data_received(piece)
        except UnexpectedPartException as error:
            known = ", ".join([FILE, *self.targets])
            raise InvalidInput(str(error.part_name)[:100], f"is not a part of this form; known: {known}") from None
        except ParseFailedException as error:
            raise InvalidInput("body", f"is not a form: {error}") from None
        except UnicodeDecodeError:
            raise InvalidInput("body", "is not a form: the header of a part is not UTF-8") from None
        if self.file.files > 1:
            raise InvalidInput(FILE, "is there twice: send one file in a request, or several as one zip")

    @property
    def name(self) -> str | None:
        """What the sender calls the file."""
        return self.file.multipart_filename or None

    def fields(self) -> dict[str, str]:
        """Return the fields that were given."""
        found = {}
        for name, target in self.targets.items():
            if target.text is not None:
                try:
                    found[name] = target.text.decode()
                except UnicodeDecodeError:
                    raise InvalidInput(name, "is not UTF-8") from None
        return found
