"""Random messages of any type of protobuf, made from its descriptor."""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

_DEPTH: Final = 3
_TEXT: Final = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.sampled_from(["default", "ours", "theirs", "last", "../../etc", "\0", "-1", "1-10000000"]),
)


def _integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = st.integers(max(low, -2), 5)
    return st.one_of(near, st.integers(low, high), st.sampled_from([low, high]))


_SCALARS: Final[dict[int, st.SearchStrategy[Any]]] = {
    FieldDescriptor.CPPTYPE_INT32: _integers(32, signed=True),
    FieldDescriptor.CPPTYPE_INT64: _integers(64, signed=True),
    FieldDescriptor.CPPTYPE_UINT32: _integers(32, signed=False),
    FieldDescriptor.CPPTYPE_UINT64: _integers(64, signed=False),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


def messages(descriptor: Descriptor, depth: int = _DEPTH) -> st.SearchStrategy[Message]:
    """Any message of this type, most fields left out."""
    make: Callable[[], Message] = message_factory.GetMessageClass(descriptor)
    fields = [field for field in descriptor.fields if depth or not field.message_type]

    @st.composite
    def filled(draw: st.DrawFn) -> Message:
        message = make()
        chosen = st.lists(st.sampled_from(fields), max_size=6, unique_by=lambda f: f.number)
        for field in draw(chosen) if fields else ():
            _fill(message, field, draw, depth)
        return message

    return filled()


def _fill(message: Message, field: FieldDescriptor, draw: st.DrawFn, depth: int) -> None:
    options = field.message_type.GetOptions() if field.message_type else None
    if options is not None and options.map_entry:
        _fill_map(message, field, draw, depth)
    elif field.is_repeated:
        values = draw(st.lists(_value(field, depth), max_size=4))
        getattr(message, field.name).extend(values)
    elif field.message_type:
        getattr(message, field.name).CopyFrom(draw(_value(field, depth)))
    else:
        setattr(message, field.name, draw(_value(field, depth)))


def _fill_map(message: Message, field: FieldDescriptor, draw: st.DrawFn, depth: int) -> None:
    assert field.message_type is not None
    entry = field.message_type.fields_by_name
    target = getattr(message, field.name)
    for key in draw(st.lists(_value(entry["key"], depth), max_size=3)):
        value = draw(_value(entry["value"], depth))
        if entry["value"].message_type:
            target[key].CopyFrom(value)
        else:
            target[key] = value


def _value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type:
        return messages(field.message_type, depth - 1)
    if field.enum_type:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=100)
    return _SCALARS.get(field.cpp_type, _TEXT)
