"""Values for tests of settings."""

from __future__ import annotations

from chronik.catalogue.definitions import Definition
from chronik.catalogue.values import ConfigType, InvalidValue


def another_value(definition: Definition) -> str:
    """A value that is allowed and not the default."""
    if definition.type is ConfigType.BOOLEAN:
        return "false" if definition.default == "true" else "true"
    if definition.type is ConfigType.DOUBLE:
        return "0.25"
    if definition.type in (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT):
        number = int(definition.default or "7")
        return next(
            text
            for text in map(str, (number - 1 if number >= 500 else number + 1, number + 2, 1 << 30))
            if is_allowed(definition, text)
        )
    return next((each for each in definition.allowed if each != definition.default), "other")


def is_allowed(definition: Definition, text: str) -> bool:
    try:
        definition.parse(text)
    except InvalidValue:
        return False
    return True
