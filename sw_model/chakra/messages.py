"""The protobuf messages of Chakra's schema 0.0.4, described here and built when they are needed.

No generated code: the schema is small, and a description that is a table can be read. Field
numbers and types are those of MLCommons Chakra's ``et_def.proto``; fields of later versions are
kept as they came, and written again.
"""

from __future__ import annotations

import enum
from functools import cache
from typing import Any

__all__ = ["VALUE_KINDS", "CollectiveKind", "NodeKind", "message"]


class NodeKind(enum.IntEnum):
    """What a node is."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class CollectiveKind(enum.IntEnum):
    """What a collective node does."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


#: Kinds of an attribute's value, in the order of their field numbers: NAME_val, NAME_list.
VALUE_KINDS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)

_PACKAGE = "antiphon.chakra"
_FIRST_VALUE = 3  # field number of the first kind of an attribute's value

# Message: (number, name, type, repeated). A type that is no scalar names a message.
_MESSAGES: dict[str, tuple[tuple[int, str, str, bool], ...]] = {
    "GlobalMetadata": ((1, "version", "string", False), (2, "attr", "AttributeProto", True)),
    "Node": (
        (1, "id", "uint64", False),
        (2, "name", "string", False),
        (3, "type", "enum", False),
        (4, "ctrl_deps", "uint64", True),
        (5, "data_deps", "uint64", True),
        (6, "start_time_micros", "uint64", False),
        (7, "duration_micros", "uint64", False),
        (8, "inputs", "IOInfo", False),
        (9, "outputs", "IOInfo", False),
        (10, "attr", "AttributeProto", True),
    ),
    "IOInfo": (
        (1, "values", "string", False),
        (2, "shapes", "string", False),
        (3, "types", "string", False),
    ),
    **{f"{kind.capitalize()}List": ((1, "values", kind, True),) for kind in VALUE_KINDS},
}


def _add_field(target: Any, number: int, name: str, kind: str, repeated: bool) -> Any:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    field = target.field.add(name=name, number=number)
    field.label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    if kind in VALUE_KINDS:
        field.type = getattr(Field, f"TYPE_{kind.upper()}")
    elif kind == "enum":
        field.type, field.type_name = Field.TYPE_ENUM, f".{_PACKAGE}.NodeType"
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    return field


@cache
def _classes() -> dict[str, type[Any]]:
    # Imported here: most commands read no traces, and start sooner without it.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="antiphon/chakra.proto", package=_PACKAGE, syntax="proto3"
    )
    kinds = file.enum_type.add(name="NodeType")
    for node_kind in NodeKind:
        kinds.value.add(name=f"{node_kind.name}_NODE", number=node_kind.value)
    for name, fields in _MESSAGES.items():
        target = file.message_type.add(name=name)
        for field in fields:
            _add_field(target, *field)
    attribute = file.message_type.add(name="AttributeProto")
    _add_field(attribute, 1, "name", "string", False)
    _add_field(attribute, 2, "doc_string", "string", False)
    attribute.oneof_decl.add(name="value")
    for index, kind in enumerate(VALUE_KINDS):
        number = _FIRST_VALUE + 2 * index
        _add_field(attribute, number, f"{kind}_val", kind, False).oneof_index = 0
        list_name = f"{kind.capitalize()}List"
        _add_field(attribute, number + 1, f"{kind}_list", list_name, False).oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in (*_MESSAGES, "AttributeProto")
    }


def message(name: str) -> type[Any]:
    """The class of a message: ``GlobalMetadata``, ``Node``, ``AttributeProto``, ..."""
    return _classes()[name]
