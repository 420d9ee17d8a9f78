"""Reads the text of a setting; an error names the key, the value and the reason."""

from __future__ import annotations

from chronik.broker.errors import BadSetting
from chronik.catalogue.definitions import Definition
from chronik.catalogue.values import InvalidValue, Value


def parse_value(definition: Definition, text: str | None) -> Value:
    """The typed value. None stands for a key without a value, and stays None. Raises BadSetting."""
    if text is None:
        return None
    try:
        value: Value = definition.parse(text)
    except InvalidValue as fault:
        raise BadSetting(definition.name, "[hidden]" if definition.is_sensitive else text.strip(), str(fault)) from None
    return value
