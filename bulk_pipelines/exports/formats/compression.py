"""Compressing a stream of bytes."""

import sys
import zlib
from collections.abc import Iterator

from bulk_pipelines.exports.request import Compression

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor
else:
    from backports.zstd import ZstdCompressor

GZIP_LEVEL = 6
GZIP_FRAME = 31


def compressed(pieces: Iterator[bytes], compression: Compression) -> Iterator[bytes]:
    if compression is Compression.NONE:
        yield from pieces
        return
    # gzip's header gets no name and no time, so that the same content gives the same file.
    compressor = ZstdCompressor() if compression is Compression.ZSTD else zlib.compressobj(GZIP_LEVEL, wbits=GZIP_FRAME)
    for piece in pieces:
        if done := compressor.compress(piece):
            yield done
    yield compressor.flush()
