"""Between protobuf messages and the models of the wire, which have the same field names."""

from typing import Any, Final, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from pydantic import BaseModel

from tgpu.core.errors import InvalidRequest
from tgpu.wire.grpc_v1 import REQUESTS

# More than any field may have; the models say how many each does. Making objects of a million
# entries that nobody will take would hold everybody else up.
_MOST_ENTRIES: Final = 100_000
_GPU_LISTS: Final = ("allowed", "excluded")
_M = TypeVar("_M", bound=Message)


def fields_of(message: Message) -> dict[str, Any]:
    """The fields that are set, as plain values: what REST would have had in its JSON.

    Not protobuf's own JSON, which makes texts of large integers.
    """
    return {field.name: _plain(field, value) for field, value in message.ListFields()}


def submit_fields_of(message: Message) -> dict[str, Any]:
    """The same of a submission, where REST has one list for indexes and for names of GPUs."""
    fields = fields_of(message)
    for which in _GPU_LISTS:
        names = fields.pop(f"{which}_gpu_names", [])
        if names:
            fields[f"{which}_gpus"] = [*fields.get(f"{which}_gpus", []), *names]
    return fields


def check_bounds(request: Message) -> None:
    """pydantic's ValidationError for what is too long, too many or too large."""
    REQUESTS[request.DESCRIPTOR.name].model_validate(fields_of(request))


def fill(message: _M, model: BaseModel) -> _M:
    """The message with what the model says. What the message has no field for is left out."""
    content = model.model_dump(mode="json", exclude_none=True)
    if "constraints" in content:
        content["constraints"] |= _gpus_apart(content["constraints"])
    return ParseDict(content, message, ignore_unknown_fields=True)


def _gpus_apart(constraints: dict[str, Any]) -> dict[str, Any]:
    """Indexes and names each in a list of their own."""
    apart: dict[str, Any] = {}
    for which in _GPU_LISTS:
        words = constraints.get(f"{which}_gpus", [])
        apart[f"{which}_gpus"] = [word for word in words if isinstance(word, int)]
        apart[f"{which}_gpu_names"] = [word for word in words if isinstance(word, str)]
    return apart


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if not field.is_repeated:
        return fields_of(value) if isinstance(value, Message) else value
    if len(value) > _MOST_ENTRIES:
        remedy = f"must have at most {_MOST_ENTRIES} entries"
        raise InvalidRequest(field.name, len(value), remedy)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {key: _entry(item) for key, item in value.items()}
    return [fields_of(item) if isinstance(item, Message) else item for item in value]


def _entry(value: Any) -> Any:
    if not isinstance(value, Message):
        return value
    fields = fields_of(value)
    # A map cannot hold lists in protobuf, so a message with the one field `values` stands in.
    return fields.get("values", []) if [*value.DESCRIPTOR.fields_by_name] == ["values"] else fields
