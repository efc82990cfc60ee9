"""A file and its options in a multipart form. The form is parsed while it arrives; fields may stand before the file or
behind it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streaming_form_data import ParseFailedException, StreamingFormDataParser
from streaming_form_data.parser import UnexpectedPartException
from streaming_form_data.targets import BaseTarget

from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.errors import InvalidInput

FILE = "file"
LONGEST_FIELD = 10_000
LONGEST_BETWEEN = 2 << 10
"""How many bytes in a row may belong to no part's content. The parser keeps what it takes for a header, and the time in
which it is understood grows with the square of its length."""
SLICE = 2 << 10
"""How many bytes are given to the parser at once: it does not ask whether a header has become too long."""


@dataclass
class Between:
    """How many bytes have come since the last byte, the beginning or the end of a part's content."""

    bytes: int = 0


class Target(BaseTarget):  # type: ignore[misc]
    """Takes the content of a part."""

    def __init__(self, between: Between) -> None:
        super().__init__()
        self.between = between

    def on_start(self) -> None:
        self.between.bytes = 0

    def on_data_received(self, chunk: bytes) -> None:  # noqa: ARG002 - see the subclasses
        self.between.bytes = 0

    def on_finish(self) -> None:
        self.between.bytes = 0


class FileTarget(Target):
    """Hands on what arrives of the file."""

    def __init__(self, between: Between) -> None:
        super().__init__(between)
        self.waiting: list[bytes] = []
        self.files = 0
        self.finished = 0

    def on_start(self) -> None:
        super().on_start()
        self.files += 1

    def on_data_received(self, chunk: bytes) -> None:
        super().on_data_received(chunk)
        self.waiting.append(bytes(chunk))

    def on_finish(self) -> None:
        super().on_finish()
        self.finished += 1

    def taken(self) -> bytes:
        taken, self.waiting = b"".join(self.waiting), []
        return taken


class FieldTarget(Target):
    """Keeps a short field."""

    def __init__(self, name: str, between: Between) -> None:
        super().__init__(between)
        self.name = name
        self.text: bytes | None = None

    def on_start(self) -> None:
        super().on_start()
        if self.text is not None:
            raise InvalidInput(self.name, "is there twice")
        self.text = b""

    def on_data_received(self, chunk: bytes) -> None:
        super().on_data_received(chunk)
        self.text = (self.text or b"") + bytes(chunk)
        if len(self.text) > LONGEST_FIELD:
            raise InvalidInput(self.name, f"is longer than {LONGEST_FIELD:,} bytes")


class Form:
    """A form, as far as it has arrived."""

    def __init__(self, content_type: str, fields: Iterable[str]) -> None:
        self.between = Between()
        self.file = FileTarget(self.between)
        self.targets = {name: FieldTarget(name, self.between) for name in fields}
        try:
            self.parser = StreamingFormDataParser({"Content-Type": content_type}, strict=True)
        except ParseFailedException as error:
            raise Refusal("unsupported-media-type", f"Content-Type: {error}") from None
        self.parser.register(FILE, self.file)
        for target in self.targets.values():
            self.parser.register(target.name, target)

    def pieces(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the file's bytes in each piece of the body; an empty text for a piece that holds none of them. When
        this has ended, the fields are known."""
        for piece in body:
            for start in range(0, len(piece), SLICE):
                self.parse(piece[start : start + SLICE])
            yield self.file.taken()
        if not self.file.files:
            raise InvalidInput(FILE, "the form has no part of this name: curl -F file=@users.csv sends one")
        if not self.file.finished:
            raise Refusal("cut-off", "the form ends in the middle of the file")

    def parse(self, piece: bytes) -> None:
        self.between.bytes += len(piece)
        try:
            self.parser.data_received(piece)
        except UnexpectedPartException as error:
            known = ", ".join([FILE, *self.targets])
            raise InvalidInput(str(error.part_name)[:100], f"is not a part of this form; known: {known}") from None
        except ParseFailedException as error:
            raise InvalidInput("body", f"is not a form: {error}") from None
        except UnicodeDecodeError:
            raise InvalidInput("body", "is not a form: the header of a part is not UTF-8") from None
        except RecursionError:
            raise InvalidInput("body", "is not a form: the header of a part cannot be understood") from None
        if self.between.bytes > LONGEST_BETWEEN:
            raise InvalidInput("body", f"is not a form: {self.between.bytes:,} bytes in a row are no content of a part")
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
