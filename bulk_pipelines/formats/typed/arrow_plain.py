"""Arrow's values without what saves room or copies: dictionaries, runs, views and large offsets become plain values."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, Numbers, compute


def plain_schema(schema: pa.Schema) -> pa.Schema:
    metadata: Any = schema.metadata
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema], metadata)


def plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_nested(kind):
        return plain_nest(kind)
    any_kind: Any = kind
    if isinstance(kind, pa.BaseExtensionType):
        return kind if isinstance(kind, pa.UuidType) else plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(any_kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind


def plain_nest(kind: Any) -> pa.DataType:
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    any_kind: pa.DataType = kind
    return any_kind


def is_list(kind: pa.DataType) -> bool:
    """Tell whether the values are lists; a map is a list of pairs."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
        or pa.types.is_map(kind)
    )


def plain(values: Column) -> Column:
    kind = values.type
    wanted = plain_type(kind)
    if wanted == kind:
        return values
    if isinstance(values, pa.ExtensionArray):
        return plain(values.storage)
    if pa.types.is_dictionary(kind):
        return plain(values.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return plain(compute.run_end_decode(values))
    return remade(values, wanted) if pa.types.is_nested(kind) else values.cast(wanted)


def remade(values: Column, wanted: Any) -> Column:
    """Return lists, maps or structures with plain values inside."""
    missing = values.is_null() if values.null_count else None
    if pa.types.is_map(wanted):
        keys, items = (plain(each) for each in elements_of(values).flatten())
        made: Any = pa.MapArray
        return made.from_arrays(edges_of(values), keys, items, type=wanted, mask=missing)
    if is_list(wanted):
        return pa.ListArray.from_arrays(edges_of(values), plain(elements_of(values)), type=wanted, mask=missing)
    return pa.StructArray.from_arrays([plain(each) for each in values.flatten()], fields=list(wanted), mask=missing)


def elements_of(values: Column) -> Column:
    """Return the elements of all lists, one behind the other; those of a map are structures."""
    return as_list(values).flatten()


def as_list(values: Column) -> Column:
    kind = values.type
    if not pa.types.is_map(kind):
        return values
    pair = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    return values.cast(pa.list_(pair))


def edges_of(values: Column) -> Column:
    """Return where the elements of each list begin and end among all elements; no value has none."""
    counts = lengths_of(values)
    return pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())


def lengths_of(values: Column) -> Numbers:
    counts = values.sizes if is_view(values.type) else compute.list_value_length(as_list(values))
    lengths: Numbers = compute.fill_null(counts, 0).to_numpy().astype(np.int64)
    if values.null_count:
        lengths[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths


def leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types of the plain values that a value of this plain type is made of."""
    any_kind: Any = kind
    if pa.types.is_map(kind):
        yield from leaf_types(any_kind.key_type)
        yield from leaf_types(any_kind.item_type)
    elif is_list(kind):
        yield from leaf_types(any_kind.value_type)
    elif pa.types.is_struct(kind):
        for field in any_kind:
            yield from leaf_types(field.type)
    else:
        yield kind


def is_view(kind: pa.DataType) -> bool:
    """Tell whether the values are lists that name their elements."""
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))
